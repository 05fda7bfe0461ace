/** Two processes must agree on every name here. They are frozen as literals in `test/pins/names.test.ts`. */

// Temporal's workflow types.

export const RUN_WORKFLOW = 'agentRun';
export const CATALOG_WORKFLOW = 'toolCatalog';
export const TICKET_WORKFLOW = 'callTicket';
/** A digest: what several runs have to tell, gathered for a time. */
export const DIGEST_WORKFLOW = 'messageDigest';
/** Beginning of the ids of digests. */
export const DIGEST_PREFIX = 'digest/';

/** Task queue of workflows, model steps, and tool calls of servers without a queue of their own. */
export const DEFAULT_TASK_QUEUE = 'countersign';

export const UPDATES = {
  decide: 'decide',
  say: 'say',
  advance: 'advance',
  stop: 'stop',
  /** Reads the trusted keys anew. The message has no content, and so is never signed. */
  refreshTrust: 'refreshTrust',
  forget: 'forget',
  resolveOutcome: 'resolveOutcome',
  provideInput: 'provideInput',
  authorize: 'authorize',
  /** A dispatch tells that its server asks people on the open connection. Never signed; the people's answers are. */
  inputAsked: 'inputAsked',
} as const;

export const CATALOG_UPDATES = {
  connect: 'connect',
  refresh: 'refresh',
  setToolPolicies: 'setToolPolicies',
  disconnect: 'disconnect',
  decide: 'decide',
  /** Reads the trusted keys anew. It also creates a catalog, so that messages can be signed for it. */
  refreshTrust: 'refreshTrust',
} as const;

export const SIGNALS = {
  /** The same as the update, for senders that cannot send updates; a refused signal becomes a ledger entry. */
  decide: 'decide',
  /** Makes an idle run take a workflow task, so that it may continue as new on a newer build. */
  nudge: 'nudge',
  delivered: 'delivered',
  /** The client of a run that dispatches on return is there, until a time. */
  present: 'present',
  /** A run has something to tell in a digest; see `Gathered`. */
  gather: 'gather',
} as const;

export const QUERIES = {
  state: 'state',
  requests: 'requests',
  transcript: 'transcript',
  ledger: 'ledger',
  /** The dispatch of a call asks for the answer to its `inputAsked`. */
  heldInput: 'heldInput',
  snapshot: 'snapshot',
} as const;

/** Search attributes, which `countersign setup` registers. Never encrypted: no argument and no free text goes here. */
export const SEARCH_ATTRIBUTES = {
  status: { name: 'CountersignStatus', type: 'KEYWORD' },
  pending: { name: 'CountersignPending', type: 'INT' },
  nextDeadline: { name: 'CountersignNextDeadline', type: 'DATETIME' },
  waitingSince: { name: 'CountersignWaitingSince', type: 'DATETIME' },
  /** Who is asked by now; for its values see `WAITS_FOR`. */
  approvers: { name: 'CountersignApprovers', type: 'KEYWORD_LIST' },
  tools: { name: 'CountersignTools', type: 'KEYWORD_LIST' },
  servers: { name: 'CountersignServers', type: 'KEYWORD_LIST' },
  initiator: { name: 'CountersignInitiator', type: 'KEYWORD' },
  tenant: { name: 'CountersignTenant', type: 'KEYWORD' },
  root: { name: 'CountersignRoot', type: 'KEYWORD' },
} as const;

export const WAITS_FOR = {
  id: (id: string): string => `id:${id}`,
  group: (group: string): string => `group:${group}`,
  /** Stands for those whom one attribute cannot hold; whoever lists what waits for somebody lists these runs, too. */
  more: 'more',
} as const;

/** Memo key under which a run lists its open requests (see `PendingMemo`). */
export const PENDING_MEMO = 'countersignPending';

/** Memo key that a run only removes: an event that changes nothing (`workflows/interceptors/separate-tasks.ts`). */
export const TASK_MEMO = 'countersignTask';

/** Memo key of the hash of the spec that started the run. The hash makes start idempotent. */
export const SPEC_HASH_MEMO = 'countersignSpecHash';

/** Memo key of the ticket under which a run makes a call for an MCP client. */
export const TICKET_MEMO = 'countersignTicket';
/** Memo key of a ticket: the run that makes its call, where that was started before the ticket was taken. */
export const TICKET_RUN_MEMO = 'countersignRun';
/** Memo key of a run that dispatches on return. */
export const DISPATCH_MEMO = 'countersignDispatch';

export const ACTIVITIES = {
  prepareRun: 'prepareRun',
  readTrust: 'readTrust',
  judge: 'judge',
  modelStep: 'modelStep',
  stretch: 'stretch',
  discoverTools: 'discoverTools',
  callTool: 'callTool',
  resumeCall: 'resumeCall',
  pollTask: 'pollTask',
  storeSegment: 'storeSegment',
  sendMessage: 'sendMessage',
  sendDigest: 'sendDigest',
  reviewChange: 'reviewChange',
  discoverCatalog: 'discoverCatalog',
} as const;

/** Activities within which calls are made; their results and last heartbeats tell of each. */
export const STRETCHING: readonly string[] = [ACTIVITIES.stretch, ACTIVITIES.prepareRun];

/** The model of single calls: it proposes what the starter states, and answers with the outcome. */
export const CALLER_MODEL = 'caller';

/** Our tool for reading linked resources. Servers cannot list this name: listed names have no colon. */
export const READ_RESOURCE = 'resources:read';

/** Paths of a worker's health port, which probes and tool servers have configured. */
export const PUBLISHED_PATHS = {
  alive: '/healthz',
  /** RFC 7517: public keys of the issuer. */
  keys: '/.well-known/jwks.json',
  /** RFC 8414. */
  metadata: '/.well-known/oauth-authorization-server',
} as const;

// A queue of this name marks a replay that also reads answers (`replay-reader.ts`), which costs more.

/** Prefix of the queue's name that the replayed run sees. */
export const READING_QUEUE = 'countersign-reading';

// Our own ids are branded strings, so that one cannot be passed in place of another.

declare const brand: unique symbol;

/** `t<turn>.c<index>`: deterministic, unique in a run. The provider's id is kept beside it and never used as a key. */
export type CallId = string & { readonly [brand]: 'CallId' };

/** The id of the call at `index` (from 0) of turn `turn` (from 1). */
export function callIdOf(turn: number, index: number): CallId {
  // Sound: this is the only place that makes call ids.
  return `t${turn}.c${index}` as CallId;
}

/** Returns the turn that proposed a call, read from its id; `NaN` for an id that is not ours: no turn had it. */
export function turnOf(callId: string): number {
  return Number(/^t(\d{1,9})\.c\d+$/.exec(callId)?.[1]);
}

export function isListing(callId: string): boolean {
  return callId.startsWith('t0.');
}
