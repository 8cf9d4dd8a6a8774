#!/bin/sh
# A worker that needs nothing but curl. Start a server first:
#
#	go run ./reaper/cmd/reaper run
#
# then run this file. STYX_API_URL names another server, STYX_API_TOKEN a
# token for it.
set -eu

api=${STYX_API_URL:-http://127.0.0.1:8080}
queue=curl-$$

# call METHOD PATH [JSON] prints the answer; one that is no success ends the script.
call() {
	curl -sS --fail-with-body --max-time 60 -X "$1" "$api$2" \
		${STYX_API_TOKEN:+-H "Authorization: Bearer $STYX_API_TOKEN"} \
		${3:+-H 'Content-Type: application/json' -d "$3"}
}

# field NAME prints a number or a plain text of the JSON object on stdin.
field() {
	sed -n 's/.*[{,]"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p'
}

# count STATUS counts the messages of the queue.
count() {
	call GET "/queues/$queue/messages?status=$1&limit=100" | field count
}

# work claims one message after the other until there is none, and reports how
# each of them fared. The lease_token keeps a slow worker from settling what
# somebody else has by now.
work() {
	while message=$(call POST "/queues/$queue/claim" '{"lease": 30, "wait": 1}'); do
		[ "$(printf %s "$message" | field claimed)" = true ] || break
		id=$(printf %s "$message" | field id)
		token=$(printf %s "$message" | field lease_token)
		to=$(printf %s "$message" | field payload)
		if grep -qxF "$to" "$addresses"; then
			call POST "/queues/$queue/messages/$id/succeed" "{\"lease_token\": $token}" >/dev/null
			echo "sent to $to"
		else
			call POST "/queues/$queue/messages/$id/fail" \
				"{\"lease_token\": $token, \"error\": \"no mailbox $to\", \"failure_kind\": \"permanent\"}" >/dev/null
			echo "failed: no mailbox $to"
		fi
	done
}

addresses=$(mktemp)
trap 'rm -f "$addresses"' EXIT
printf '%s\n' ada@example.com grace@example.com >"$addresses"

for to in ada@example.com nobody@example.com grace@example.com; do
	call POST "/queues/$queue/messages" "{\"kind\": \"mail\", \"payload\": \"$to\"}" >/dev/null
	echo "enqueued for $to"
done
work

echo "dead letters: $(count dead)"
echo nobody@example.com >>"$addresses" # somebody has made the mailbox
id=$(call GET "/queues/$queue/messages?status=dead&limit=1" | field id)
call POST "/queues/$queue/messages/$id/replay" '{"reason": "the mailbox is there now"}' >/dev/null
echo "replayed"
work

echo "succeeded $(count succeeded) dead $(count dead)"
