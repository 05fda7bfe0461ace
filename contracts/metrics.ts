/** Names of metrics, frozen in `test/pins/names.test.ts`; apart from `names.ts`, which all workflows bundle. */

/** Metrics of a worker process, beside those of Temporal's SDK. */
export const METRICS = {
  running: 'countersign_server_calls',
  held: 'countersign_server_calls_held',
  breaker: 'countersign_server_breaker',
  refusedQueries: 'countersign_queries_refused',
  messages: 'countersign_messages',
  calls: 'countersign_calls',
  tokens: 'countersign_tokens',
  unverified: 'countersign_payloads_unverified',
} as const;

export const GATEWAY_METRICS = {
  open: 'countersign_requests_open',
  openByGroup: 'countersign_requests_open_by_group',
  openBySubject: 'countersign_requests_open_by_subject',
  dueSoon: 'countersign_requests_due_soon',
  closed: 'countersign_request_seconds',
  runsEnded: 'countersign_runs_ended',
  runsStuck: 'countersign_runs_stuck',
  answers: 'countersign_answers',
  gateCalls: 'countersign_gate_calls',
  readsFailed: 'countersign_run_reads_failed',
  stale: 'countersign_projection_stale_seconds',
  runs: 'countersign_projection_runs',
  cut: 'countersign_projection_cut',
  streams: 'countersign_streams_open',
  http: 'countersign_http_requests',
  httpSeconds: 'countersign_http_seconds',
} as const;

export const CODEC_METRICS = {
  payloads: 'countersign_codec_payloads',
  http: 'countersign_codec_http_requests',
  httpSeconds: 'countersign_codec_http_seconds',
} as const;
