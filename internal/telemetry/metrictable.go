package telemetry

import "slices"

// The labels.
const (
	labelSystem      = string(KeySystem)
	labelOperation   = string(KeyOperation)
	labelType        = string(KeyOperationType)
	labelDestination = string(KeyDestination)
	labelErrorType   = string(KeyErrorType)

	labelQueue       = "queue"
	labelKind        = "kind"
	labelTenant      = "tenant"
	labelStatus      = "status"
	labelErrorClass  = "error_class"
	labelDecision    = "decision"
	labelFingerprint = "fingerprint"
	labelResult      = "result"
	labelTask        = "task"
)

// Who reports.
const (
	byClient    = "client"
	byWorker    = "worker"
	byReaper    = "reaper"
	byCollector = "collector"
)

// The buckets that the semantic conventions advise, and those for what may
// wait.
var (
	durationBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10}
	waitBuckets     = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800}
	attemptBuckets  = []float64{1, 2, 3, 4, 5, 7, 10, 15, 20, 50, 100}
	batchBuckets    = []float64{1, 2, 5, 10, 25, 50, 100, 250, 500, 1000}
)

// table has every metric of Styx.
var table = []Instrument{
	{
		Name: nameOperationDuration, Prometheus: "messaging_client_operation_duration_seconds", Type: Histogram, Unit: "s",
		Labels: []string{labelSystem, labelOperation, labelType, labelDestination, labelErrorType},
		By:     "client, worker", Buckets: durationBuckets,
		Help: "Duration of a send, of a receive that found something or failed, and of a settle of a group.",
	},
	{
		Name: nameSent, Prometheus: "messaging_client_sent_messages_total", Type: Counter, Unit: "{message}",
		Labels: []string{labelSystem, labelOperation, labelDestination, labelErrorType}, By: byClient,
		Help: "Messages that were to be enqueued; error.type stands with those that were not.",
	},
	{
		Name: nameConsumed, Prometheus: "messaging_client_consumed_messages_total", Type: Counter, Unit: "{message}",
		Labels: []string{labelSystem, labelOperation, labelDestination}, By: byWorker,
		Help: "Messages that workers claimed, each delivery for itself.",
	},
	{
		Name: nameProcessDuration, Prometheus: "messaging_process_duration_seconds", Type: Histogram, Unit: "s",
		Labels: []string{labelSystem, labelOperation, labelType, labelDestination, labelErrorType}, By: byWorker,
		Buckets: durationBuckets,
		Help:    "Duration of one attempt at a message.",
	},
	{
		Name: nameWait, Prometheus: "styx_queue_wait_seconds", Type: Histogram, Unit: "s", Labels: []string{labelQueue},
		By: byWorker, Buckets: waitBuckets,
		Help: "Time from when a message was due to the begin of its attempt, by the clock of the worker.",
	},
	{
		Name: nameSucceeded, Prometheus: "styx_jobs_succeeded_total", Type: Counter, Unit: "{message}",
		Labels: []string{labelQueue, labelKind}, By: byWorker,
		Help: "Messages that succeeded.",
	},
	{
		Name: nameFailed, Prometheus: "styx_jobs_failed_total", Type: Counter, Unit: "{attempt}",
		Labels: []string{labelQueue, labelKind, labelTenant, labelErrorClass}, By: "worker, reaper",
		Help: "Attempts that failed and were charged; tenant stands there when it is asked for.",
	},
	{
		Name: nameRetried, Prometheus: "styx_jobs_retried_total", Type: Counter, Unit: "{attempt}",
		Labels: []string{labelQueue, labelKind}, By: "worker, reaper",
		Help: "Failed attempts after which the message runs again.",
	},
	{
		Name: nameDead, Prometheus: "styx_jobs_dead_total", Type: Counter, Unit: "{message}",
		Labels: []string{labelQueue, labelKind, labelDecision}, By: "worker, reaper",
		Help: "Messages that became dead letters, by the reason.",
	},
	{
		Name: nameDeadAgain, Prometheus: "styx_jobs_dead_again_total", Type: Counter, Unit: "{message}",
		Labels: []string{labelQueue, labelKind}, By: byWorker,
		Help: "Messages that became dead letters after they had been replayed.",
	},
	{
		Name: nameReleased, Prometheus: "styx_jobs_released_total", Type: Counter, Unit: "{message}",
		Labels: []string{labelQueue, labelResult}, By: byWorker,
		Help: "Messages that were given back uncharged, as released or snoozed.",
	},
	{
		Name: nameAttempts, Prometheus: "styx_job_attempts", Type: Histogram, Unit: "{attempt}", Labels: []string{labelQueue},
		By: byWorker, Buckets: attemptBuckets,
		Help: "Attempts that a message had used when it succeeded or died.",
	},
	{
		Name: nameLeasesLost, Prometheus: "styx_leases_lost_total", Type: Counter, Unit: "{attempt}",
		Labels: []string{labelQueue}, By: byWorker,
		Help: "Attempts whose outcome did not count because the message was not the worker's any more.",
	},
	{
		Name: nameAbandoned, Prometheus: "styx_handlers_abandoned_total", Type: Counter, Unit: "{handler}",
		Labels: []string{labelQueue, labelKind}, By: byWorker,
		Help: "Handlers that did not return after their context had ended.",
	},
	{
		Name: nameStray, Prometheus: "styx_handlers_stray", Type: UpDownCounter, Unit: "{handler}",
		Labels: []string{labelQueue}, By: byWorker,
		Help: "Handlers that run although their outcome does not count any more.",
	},
	{
		Name: nameClaims, Prometheus: "styx_claims_total", Type: Counter, Unit: "{claim}",
		Labels: []string{labelQueue, labelResult}, By: byWorker,
		Help: "Claims of a worker, by their result: some, empty or error.",
	},
	{
		Name: nameSettleBatch, Prometheus: "styx_settle_batch_size", Type: Histogram, Unit: "{message}", By: byWorker,
		Buckets: batchBuckets,
		Help:    "Outcomes that were recorded together.",
	},
	{
		Name: nameReaped, Prometheus: "styx_jobs_reaped_total", Type: Counter, Unit: "{message}",
		Labels: []string{labelQueue, labelDecision, labelResult}, By: byReaper,
		Help: "Messages that the reaper moved, by the reason and by where to: requeued or dead.",
	},
	{
		Name: nameReaperSuccess, Prometheus: "styx_reaper_last_success_timestamp_seconds", Type: Gauge, Unit: "s",
		Labels: []string{labelTask}, By: byReaper,
		Help: "When a job of this reaper last ended well, in seconds since 1970.",
	},
	{
		Name: nameReaperDuration, Prometheus: "styx_reaper_duration_seconds", Type: Histogram, Unit: "s",
		Labels: []string{labelTask}, By: byReaper, Buckets: waitBuckets,
		Help: "Duration of a run of a job of the reaper.",
	},
	{
		Name: nameReaperFailures, Prometheus: "styx_reaper_failures_total", Type: Counter, Unit: "{run}",
		Labels: []string{labelTask}, By: byReaper,
		Help: "Runs of a job of the reaper that failed.",
	},
	{
		Name: nameDepth, Prometheus: "styx_queue_depth", Type: Gauge, Unit: "{message}",
		Labels: []string{labelQueue, labelStatus}, By: byCollector,
		Help: "Messages that are ready, scheduled or processing; 10000 means that or more.",
	},
	{
		Name: nameOldestPending, Prometheus: "styx_queue_oldest_pending_age_seconds", Type: Gauge, Unit: "s",
		Labels: []string{labelQueue}, By: byCollector,
		Help: "How long the oldest ready message has been due.",
	},
	{
		Name: nameOverdue, Prometheus: "styx_queue_overdue", Type: Gauge, Unit: "{message}",
		Labels: []string{labelQueue}, By: byCollector,
		Help: "Processing messages whose deadline has passed and which nobody has taken back, among the first that are found.",
	},
	{
		Name: nameWorkers, Prometheus: "styx_workers", Type: Gauge, Unit: "{worker}", Labels: []string{labelQueue},
		By:   byCollector,
		Help: "Workers that are alive and serve the queue.",
	},
	{
		Name: nameDLQDepth, Prometheus: "styx_dlq_depth", Type: Gauge, Unit: "{message}", Labels: []string{labelQueue},
		By:   byCollector,
		Help: "Dead letters that wait for somebody; 10000 means that or more.",
	},
	{
		Name: nameDLQAge, Prometheus: "styx_dlq_age_p95_seconds", Type: Gauge, Unit: "s", Labels: []string{labelQueue},
		By:   byCollector,
		Help: "95th percentile of how long dead letters have waited; from 10000 letters on it is an upper bound.",
	},
	{
		Name: nameFirstSeen, Prometheus: "styx_dlq_fingerprint_first_seen_timestamp_seconds", Type: Gauge, Unit: "s",
		Labels: []string{labelQueue, labelKind, labelErrorClass, labelFingerprint}, By: byCollector,
		Help: "When the oldest waiting dead letter with this fingerprint died, for the 50 newest fingerprints.",
	},
	{
		Name: nameAttemptsP95, Prometheus: "styx_retry_attempts_p95", Type: Gauge, Unit: "{attempt}",
		Labels: []string{labelQueue}, By: byCollector,
		Help: "95th percentile of the attempts used by messages that wait for a retry or are dead, of a sample.",
	},
	{
		Name: nameOldestTx, Prometheus: "styx_oldest_transaction_age_seconds", Type: Gauge, Unit: "s", By: byCollector,
		Help: "How long the oldest transaction of the database has held vacuum back, among those that the role may see.",
	},
	{
		Name: nameCollected, Prometheus: "styx_collector_last_success_timestamp_seconds", Type: Gauge, Unit: "s", By: byCollector,
		Help: "When these gauges were computed, in seconds since 1970.",
	},
}

// The names.
const (
	nameOperationDuration = "messaging.client.operation.duration"
	nameSent              = "messaging.client.sent.messages"
	nameConsumed          = "messaging.client.consumed.messages"
	nameProcessDuration   = "messaging.process.duration"

	nameWait           = "styx.queue.wait"
	nameSucceeded      = "styx.jobs.succeeded"
	nameFailed         = "styx.jobs.failed"
	nameRetried        = "styx.jobs.retried"
	nameDead           = "styx.jobs.dead"
	nameDeadAgain      = "styx.jobs.dead_again"
	nameReleased       = "styx.jobs.released"
	nameAttempts       = "styx.job.attempts"
	nameLeasesLost     = "styx.leases.lost"
	nameAbandoned      = "styx.handlers.abandoned"
	nameStray          = "styx.handlers.stray"
	nameClaims         = "styx.claims"
	nameSettleBatch    = "styx.settle.batch.size"
	nameReaped         = "styx.jobs.reaped"
	nameReaperSuccess  = "styx.reaper.last_success.timestamp"
	nameReaperDuration = "styx.reaper.duration"
	nameReaperFailures = "styx.reaper.failures"

	nameDepth         = "styx.queue.depth"
	nameOldestPending = "styx.queue.oldest_pending.age"
	nameOverdue       = "styx.queue.overdue"
	nameWorkers       = "styx.workers"
	nameDLQDepth      = "styx.dlq.depth"
	nameDLQAge        = "styx.dlq.age.p95"
	nameFirstSeen     = "styx.dlq.fingerprint.first_seen.timestamp"
	nameAttemptsP95   = "styx.retry.attempts.p95"
	nameOldestTx      = "styx.oldest_transaction.age"
	nameCollected     = "styx.collector.last_success.timestamp"
)

// Instruments returns the table of all metrics, semantic ones first.
func Instruments() []Instrument { return slices.Clone(table) }
