/**
 * Every name that two processes must agree on. Frozen as literals in `test/pins/names.test.ts`.
 */

/** Temporal workflow type of a run. */
export const RUN_WORKFLOW = 'agentRun';

/** Temporal workflow type of a catalog. */
export const CATALOG_WORKFLOW = 'toolCatalog';

/** Task queue of workflows, model steps and, where a server names no queue of its own, tool calls. */
export const DEFAULT_TASK_QUEUE = 'countersign';

export const UPDATES = {
  decide: 'decide',
  say: 'say',
  advance: 'advance',
  stop: 'stop',
  /** Reads the trusted keys anew; says nothing, and so is never signed. */
  refreshTrust: 'refreshTrust',
  /** Takes a standing decision back. */
  forget: 'forget',
  /** Says what became of a call whose outcome is not known. */
  resolveOutcome: 'resolveOutcome',
  /** Answers what a server asks for in the middle of a call. */
  provideInput: 'provideInput',
  /** Consents to scopes, or gives another grant, where a server wants another authorization. */
  authorize: 'authorize',
  /** From the dispatch of a call: its server asks people, and holds the connection open. Never signed: what a person says to it is. */
  inputAsked: 'inputAsked',
} as const;

/** Of a catalog. */
export const CATALOG_UPDATES = {
  connect: 'connect',
  refresh: 'refresh',
  setToolPolicies: 'setToolPolicies',
  disconnect: 'disconnect',
  /** A second administrator's word on a loosening. */
  decide: 'decide',
  /** As that of a run; it also begins a catalog, which then can be signed for. */
  refreshTrust: 'refreshTrust',
} as const;

export const SIGNALS = {
  /** Twin of the update for senders that cannot send updates; a refused one becomes a ledger entry. */
  decide: 'decide',
  /** Makes an idle run take a workflow task, so that it may continue as new on a newer build. */
  nudge: 'nudge',
} as const;

export const QUERIES = {
  state: 'state',
  requests: 'requests',
  transcript: 'transcript',
  ledger: 'ledger',
  /** From the dispatch of a call: what became of what `inputAsked` told. */
  heldInput: 'heldInput',
  /** Of a catalog. */
  snapshot: 'snapshot',
} as const;

/**
 * Search attributes and their Temporal types. Registered by `countersign setup`.
 * Never encrypted by Temporal: no argument, no free text of a model or tool may go here.
 */
export const SEARCH_ATTRIBUTES = {
  CountersignStatus: 'KEYWORD',
  CountersignPending: 'INT',
  CountersignNextDeadline: 'DATETIME',
  CountersignWaitingSince: 'DATETIME',
  CountersignApproverGroups: 'KEYWORD_LIST',
  CountersignTools: 'KEYWORD_LIST',
  CountersignServers: 'KEYWORD_LIST',
  CountersignInitiator: 'KEYWORD',
  CountersignTenant: 'KEYWORD',
  CountersignRoot: 'KEYWORD',
} as const;

export type SearchAttributeName = keyof typeof SEARCH_ATTRIBUTES;

/** Memo key under which a run lists what waits (see `PendingMemo`). */
export const PENDING_MEMO = 'countersignPending';

/** Memo key that holds the hash of the spec a run was started with. Makes start idempotent. */
export const SPEC_HASH_MEMO = 'countersignSpecHash';

export const ACTIVITIES = {
  prepareRun: 'prepareRun',
  readTrust: 'readTrust',
  judge: 'judge',
  modelStep: 'modelStep',
  discoverTools: 'discoverTools',
  callTool: 'callTool',
  resumeCall: 'resumeCall',
  pollTask: 'pollTask',
  storeSegment: 'storeSegment',
  reviewChange: 'reviewChange',
  discoverCatalog: 'discoverCatalog',
} as const;

/** The tool of ours with which linked resources are read. A server cannot list one of this name: listed names have no colon. */
export const READ_RESOURCE = 'resources:read';

/** Metrics of a worker process, beside those of Temporal's SDK. */
export const METRICS = {
  running: 'countersign_server_calls',
  held: 'countersign_server_calls_held',
  breaker: 'countersign_server_breaker',
  refusedQueries: 'countersign_queries_refused',
} as const;

/** What a worker's health port answers, frozen in `test/pins/names.test.ts`: probes and tool servers have these paths. */
export const PUBLISHED_PATHS = {
  alive: '/healthz',
  /** RFC 7517: public keys of the issuer. */
  keys: '/.well-known/jwks.json',
  /** RFC 8414. */
  metadata: '/.well-known/oauth-authorization-server',
} as const;

// How a replay is told apart that reads what a run would answer (`workflows/interceptors/replay-reader.ts`): asking costs more than replaying.

/** Begins the name of the queue that the replayed run sees. */
export const READING_QUEUE = 'countersign-reading';
