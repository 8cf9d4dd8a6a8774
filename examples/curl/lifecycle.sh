#!/bin/bash
# Walks the whole life of messages over HTTP, call by call, and stops at the
# first answer that is not the one it should be. See worker.sh for how to run.
set -euo pipefail

api=${STYX_API_URL:-http://127.0.0.1:8080}
queue=emails-$$
other=notifications-$$
n=0

# expect STATUS METHOD PATH [JSON] keeps the answer in $body.
expect() {
	local want=$1 method=$2 path=$3 got
	local args=(-sS --max-time 60 -X "$method" -w '\n%{http_code}')
	[ $# -gt 3 ] && args+=(-H 'Content-Type: application/json' -d "$4")
	[ -n "${STYX_API_TOKEN:-}" ] && args+=(-H "Authorization: Bearer $STYX_API_TOKEN")
	body=$(curl "${args[@]}" "$api$path")
	got=${body##*$'\n'}
	body=${body%$'\n'*}
	body=${body%$'\n'}
	n=$((n + 1))
	[ "$got" = "$want" ] || fail "$method $path: $got instead of $want"
}

# holds TEXT... looks for each in the answer.
holds() {
	local text
	for text; do
		[[ $body == *"$text"* ]] || fail "not in the answer: $text"
	done
}

fail() {
	printf '%s\n%s\n' "$1" "$body" >&2
	exit 1
}

field() {
	sed -n 's/.*[{,]"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' <<<"$body"
}

seconds() {
	echo $(($(date -d "$(field retry_after)" +%s%3N) - $(date -d "$(field updated_at)" +%s%3N)))
}

# Enqueue: payload is a string that nobody looks into; max_retries is 1 to 10, 3 by default.
expect 201 POST "/queues/$queue/messages" '{"payload": "{\"to\":\"alice@example.com\",\"subject\":\"Welcome\"}", "max_retries": 5}'
first=$(field id)
holds "{\"id\":$first,\"queue\":\"$queue\",\"payload\":\"{\\\"to\\\":\\\"alice@example.com\\\",\\\"subject\\\":\\\"Welcome\\\"}\",\"status\":\"pending\",\"retry_count\":0,\"max_retries\":5,\"retry_after\":null,\"last_error\":null,\"created_at\":\""
expect 201 POST "/queues/$queue/messages" '{"payload": "second"}'
second=$(field id)
holds '"max_retries":3'
for bad in 0 11 -1 '"3"' 2.5 true; do
	expect 422 POST "/queues/$queue/messages" "{\"payload\": \"x\", \"max_retries\": $bad}"
	holds '"field":"max_retries"' '"code":"invalid"' '"message":"max_retries must be between 1 and 10."'
done
expect 422 POST "/queues/$queue/messages" '{}'
holds '"field":"payload"'
expect 422 POST "/queues/$queue/messages" '{"payload": ""}'
expect 422 POST "/queues/$queue/messages" '{"payload": {"no": "string"}}'
expect 400 POST "/queues/$queue/messages" '{"payload": '

# List and get.
expect 200 GET "/queues/$queue/messages"
holds '"count":2' "\"id\":$first" "\"id\":$second"
expect 200 GET "/queues/$queue/messages?status=pending&limit=1"
holds '"count":1' "\"id\":$first"
expect 200 GET "/queues/$queue/messages?limit=1&offset=1"
holds '"count":1' "\"id\":$second"
expect 422 GET "/queues/$queue/messages?status=gone"
expect 422 GET "/queues/$queue/messages?limit=101"
expect 422 GET "/queues/$queue/messages?offset=1000001"
expect 200 GET "/queues/$queue/messages/$first"
expect 404 GET "/queues/$queue/messages/999999999999"
expect 404 GET "/queues/$queue/messages/abc"

# Queues are apart, and come into being by themselves.
expect 404 GET "/queues/$other/messages/$first"
expect 200 POST "/queues/$other/claim"
[ "$body" = '{"claimed":false,"message":null}' ] || fail "an empty queue"

# Only what is being processed can succeed or fail, only what is dead can be replayed.
for verb in succeed fail replay; do
	expect 409 POST "/queues/$queue/messages/$first/$verb"
	holds '"current_status":"pending"'
	expect 404 POST "/queues/$other/messages/$first/$verb"
done

# Claim: first in, first out.
expect 200 POST "/queues/$queue/claim"
holds '"claimed":true' "\"id\":$first" '"status":"processing"'
expect 200 POST "/queues/$queue/claim"
holds "\"id\":$second"
expect 200 POST "/queues/$queue/claim"
holds '"claimed":false'

# Success.
expect 200 POST "/queues/$queue/messages/$second/succeed"
holds '"status":"succeeded"'
expect 409 POST "/queues/$queue/messages/$second/succeed"
holds '"current_status":"succeeded"'

# Failure: back to pending, 2 s later, then 4 s.
expect 200 POST "/queues/$queue/messages/$first/fail" '{"error": "SMTP 421"}'
holds '"status":"pending"' '"retry_count":1' '"last_error":"SMTP 421"'
[ "$(seconds)" = 2000 ] || fail "the first delay"
expect 200 POST "/queues/$queue/claim" '{"wait": 30}'
holds "\"id\":$first" '"retry_count":1'
expect 200 POST "/queues/$queue/messages/$first/fail"
holds '"retry_count":2' '"last_error":"unspecified error"'
[ "$(seconds)" = 4000 ] || fail "the second delay"

# Exhausted: dead, and back by a replay.
expect 201 POST "/queues/$other/messages" '{"payload": "x", "max_retries": 1}'
doomed=$(field id)
expect 200 POST "/queues/$other/claim"
expect 200 POST "/queues/$other/messages/$doomed/fail" '{"error": "gone"}'
holds '"status":"dead"' '"retry_count":1' '"last_error":"gone"'
expect 200 GET "/queues/$other/messages?status=dead"
holds '"count":1' "\"id\":$doomed"
expect 409 POST "/queues/$other/messages/$doomed/fail"
expect 200 POST "/queues/$other/messages/$doomed/replay"
holds '"status":"pending"' '"retry_count":0' '"max_retries":1' '"retry_after":null' '"last_error":null'
expect 409 POST "/queues/$other/messages/$doomed/replay"
expect 200 POST "/queues/$other/claim"
holds "\"id\":$doomed"
expect 200 POST "/queues/$other/messages/$doomed/succeed"

echo "$n calls answered as they should"
