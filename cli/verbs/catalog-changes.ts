/**
 * Implements the verbs of `countersign catalog` that change a catalog: `connect`, `disconnect`, `allow`, `ask`, `deny`,
 * `enable`, `disable`, `approve` and `reject`.
 *
 * 1. A change applies to the catalog version that was read. Another version is a conflict, and nothing is changed; what
 *    an earlier message of the same command has changed stays.
 * 2. No definition is acknowledged that nobody has looked at: the operator names a changed one by its hash.
 *
 * One file, because the verbs share how entries are chosen and how a change is sent.
 */
import { randomUUID } from 'node:crypto';
import type { CatalogHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, isErrorCode } from '../../contracts/errors.ts';
import {
  type CatalogAck,
  type CatalogEntry,
  type CatalogSnapshot,
  MOST_TOOL_CHANGES,
  type ToolChange,
} from '../../contracts/schemas/catalog.ts';
import { changedSetting, directionsOf } from '../../domain/catalog/settings.ts';
import { hasDrifted } from '../../domain/catalog/state.ts';
import { visible } from '../../domain/text/escape.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import { sentUnder } from '../session/consent.ts';
import { chosenEntries, readChanged, snapshotIfAny } from '../session/catalog-reading.ts';
import * as option from '../session/options.ts';
import type { Session } from '../session/session.ts';
import { type Answer, verb, type Verb } from '../session/verb.ts';
import { changeAnswer, connectAnswer, decidedAnswer, type Refreshed } from '../views/catalog-change.ts';

export const SERVER = option.one('name of the server');
export const TENANT = option.preset('default', option.text('<name>', 'whose catalog'));

export const MESSAGE = {
  group: option.several('<name>', 'a group that they belong to'),
  requestId: option.text('<id>', 'id of a message whose answer was lost; sent again under this id, it counts once'),
};
export const EXPECTED_VERSION = option.wholeNumber(
  '<n>',
  'change only this version of the catalog (default: the one read now)',
);
export const ACTING = { tenant: TENANT, as: option.actor('who makes the change'), ...MESSAGE };
const CHANGING = { ...ACTING, expectedVersion: EXPECTED_VERSION };

type Acting = Omit<option.Values<typeof ACTING>, 'tenant'>;
type Changing = option.Values<typeof CHANGING>;

interface MessageIds {
  readonly requestId: string;
  readonly by: { readonly id: string; readonly groups: string[] };
}

/**
 * Sends a message under an id. If the answer gets lost, the error names that id.
 * @param more options without which it would not be the same message
 */
export async function sendAs<T>(
  { as, group = [], requestId = randomUUID() }: Acting,
  version: number | undefined,
  send: (ids: MessageIds) => Promise<T>,
  more = '',
): Promise<T> {
  const same = version === undefined ? '' : ` --expected-version ${version}`;
  return await sentUnder(`--request-id ${requestId}${same}${more}`, { requestId }, async () =>
    send({ requestId, by: { id: as, groups: [...group] } }),
  );
}

export const CONNECT = verb({
  name: 'connect',
  summary: 'begin a catalog, or change how its server is reached',
  description:
    'Connect a server and list its tools. Connecting it again changes how it is reached: options that are not given are then off',
  args: { server: SERVER },
  options: {
    ...CHANGING,
    url: option.text('<url>', "MCP endpoint (default: the server's in the configuration)"),
    credentials: option.text('<name>', "entry of `credentials` in the workers' configuration; never a secret"),
    trusted: option.flag("the server's annotations may exempt calls from asking"),
    taskQueue: option.text('<name>', 'queue whose workers reach the server'),
    anew: option.flag('even if the last catalog was terminated; what was set there is lost'),
  },
  examples: [
    'catalog connect files --as ann',
    'catalog connect tickets --as ann --url https://tickets.example.com/mcp --credentials tickets-reader',
  ],
  run: async ({ args: { server }, options, session }) => {
    const { tenant, credentials, trusted, taskQueue, deadline } = options;
    return await session(async ({ countersign, settings: { serverUrls } }) => {
      const handle = countersign.catalog(server, tenant);
      const url = options.url ?? (Object.hasOwn(serverUrls, server) ? serverUrls[server] : undefined);
      if (url === undefined)
        throw option.usage(`The configuration names no server ${server}; say where it is with --url.`);
      const anew = options.anew === true;
      const before = anew ? undefined : await snapshotIfAny(handle);
      const expectedVersion = options.expectedVersion ?? before?.policyVersion;
      const wanted = { url, ...defined({ credentials, trusted, taskQueue, expectedVersion }) };
      const ack = await sendAs(options, expectedVersion, (ids) => handle.connect({ ...ids, ...wanted }, { anew }));
      return connectAnswer(ack, await awaitRefresh(handle, ack.refresh ?? 0, before, deadline), Date.now());
    });
  },
});

export const DISCONNECT = verb({
  name: 'disconnect',
  summary: 'close a server to every run',
  description:
    'Offer no tool of the server any more. The settings of its tools are kept, and apply again after connect',
  args: { server: SERVER },
  options: CHANGING,
  examples: ['catalog disconnect files --as ann'],
  run: async ({ args: { server }, options, session }) => {
    const { tenant } = options;
    const ack = await session(async ({ countersign }) => {
      const handle = countersign.catalog(server, tenant);
      const expectedVersion = options.expectedVersion ?? (await handle.snapshot()).policyVersion;
      return await sendAs(options, expectedVersion, (ids) => handle.disconnect({ ...ids, expectedVersion }));
    });
    return {
      json: { tenant, server, ...ack },
      text: (paint) =>
        `${paint('red', 'disconnected')}  ${paint('bold', visible(server))}, version ${ack.policyVersion}`,
    };
  },
});

const SPELLED = 'as the server spells them';
const ALL = option.flag('all tools of the catalog');

/** So that no other hash begins alike by chance. */
const HASH_CHARACTERS = 8;
const prefixOf = option.hex(HASH_CHARACTERS, 'It must be 8 to 64 characters of a definition hash.');

const acknowledging = (help: string) =>
  option.parsed<readonly string[]>((given, before = []) => [...before, prefixOf(given)], '<sha256>', help);

export const ALLOW = verb({
  name: 'allow',
  summary: 'let calls run without a countersignature',
  description:
    "Let calls run without a countersignature, also of tools that were denied, and acknowledge their definitions. The organisation's policy and the run's still count",
  args: { server: SERVER, tools: option.some(SPELLED) },
  options: {
    ...CHANGING,
    hash: acknowledging(
      'acknowledge a changed definition by its hash, or its first 8 characters, as `diff` shows it; may be given several times',
    ),
  },
  examples: [
    'catalog allow files read_file list_directory --as ann',
    'catalog allow files read_file --as ann --hash 5c1d09aa',
  ],
  run: async ({ args, options, session }) => {
    const change = { requiresApproval: false, denied: false };
    const wanted = { ...args, hashes: options.hash ?? [], change, acknowledge: 'always' } as const;
    return await session(async (opened) => changeTools(opened, options, wanted));
  },
});

export const ASK = verb({
  name: 'ask',
  summary: 'make every call wait for a countersignature',
  description:
    'Make every call of these tools wait for a countersignature, also where other policy allows them. A tool that this catalog denied is asked about from then on; what the organisation or a run denies stays denied',
  args: { server: SERVER, tools: option.any(SPELLED) },
  options: {
    ...CHANGING,
    all: ALL,
    approver: option.several('<id>', 'who may decide'),
    approverGroup: option.several('<name>', 'a group that may decide'),
    need: option.wholeNumber('<n>', 'how many of them must agree'),
    notInitiator: option.flag('the person who started the run does not count'),
    deadlineSeconds: option.wholeNumber('<n>', 'how long a request waits'),
    hash: acknowledging('acknowledge a changed definition by its hash, as `diff` shows it'),
  },
  examples: [
    'catalog ask files write_file --as ann --approver-group ops --deadline-seconds 3600',
    'catalog ask files --all --as ann',
    'catalog ask bank pay --as ann --approver-group finance --need 2 --not-initiator',
  ],
  run: async ({ args, options, session }) => {
    const { approver = [], approverGroup = [], need, notInitiator, deadlineSeconds, hash = [], all = false } = options;
    const names = approver.length + approverGroup.length > 0;
    if (!names && (need !== undefined || notInitiator === true))
      throw option.usage('--need and --not-initiator go with a list: --approver, --approver-group.');
    const list = { ids: [...approver], groups: [...approverGroup], ...defined({ need, notInitiator }) };
    const approvers = names ? list : undefined;
    const change = { requiresApproval: true, denied: false, ...defined({ approvers, deadlineSeconds }) };
    const wanted = { ...args, all, hashes: hash, acknowledge: 'named', change } as const;
    return await session(async (opened) => changeTools(opened, options, wanted));
  },
});

/** Verbs that change one setting. Only those that take something away apply to all tools at once. */
export const SWITCHES: readonly Verb[] = [
  toolSwitch({
    name: 'deny',
    summary: 'refuse every call',
    description: 'Refuse every call of these tools; agents still see them, and are told',
    change: { denied: true },
    takesAll: true,
  }),
  toolSwitch({
    name: 'enable',
    summary: 'let agents see a tool again',
    description: 'Let agents see these tools again; what is set of their calls stays',
    change: { enabled: true },
    takesAll: false,
  }),
  toolSwitch({
    name: 'disable',
    summary: 'take a tool away from agents',
    description: 'Take these tools away: agents do not see them, and no call of them is made',
    change: { enabled: false },
    takesAll: true,
  }),
];

interface Switch extends Pick<ToolsChange, 'change'> {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly takesAll: boolean;
}

function toolSwitch({ change, takesAll, ...help }: Switch): Verb {
  const { name } = help;
  const options: typeof CHANGING & { readonly all?: typeof ALL } = takesAll ? { ...CHANGING, all: ALL } : CHANGING;
  return verb({
    ...help,
    args: { server: SERVER, tools: takesAll ? option.any(SPELLED) : option.some(SPELLED) },
    options,
    examples: [
      `catalog ${name} files write_file --as ann`,
      ...(takesAll ? [`catalog ${name} files --all --as ann`] : []),
    ],
    run: async ({ args, options: given, session }) => {
      const wanted = { ...args, all: given.all === true, change };
      return await session(async (opened) => changeTools(opened, given, wanted));
    },
  });
}

export const DECISIONS: readonly Verb[] = [
  decision(
    'approve',
    'agree to a change that waits',
    'Agree to the change of another administrator, which then applies',
  ),
  decision('reject', 'refuse a change that waits', 'Refuse a change that waits; nothing of it applies'),
];

const WHOLE_DIGEST = 64;

function decision(verdict: 'approve' | 'reject', summary: string, description: string): Verb {
  return verb({
    name: verdict,
    summary,
    description,
    args: { server: SERVER, change: option.one('id of the change, as `catalog show` has it') },
    options: {
      ...ACTING,
      digest: option.digest('decide only the change with this digest, or one that begins so (at least 32 characters)'),
    },
    examples: [
      `catalog ${verdict} files change-1 --as ben`,
      `catalog ${verdict} files change-1 --as ben --digest 3f8a90c2d1e45b6c7d8e9f0a1b2c3d4e`,
    ],
    run: async ({ args: { server, change }, options, session }) =>
      await session(async (opened) => decideChange(opened, options, { server, changeId: change, verdict })),
  });
}

/** A decision that was taken finds its change no more: sent again, it needs the digest, and gets its receipt. */
export async function decideChange(
  { countersign, settings }: Session,
  options: Acting & { readonly tenant: string; readonly digest?: string },
  { server, changeId, verdict }: { server: string; changeId: string; verdict: 'approve' | 'reject' },
): Promise<Answer> {
  const { tenant } = options;
  const handle = countersign.catalog(server, tenant);
  const change = (await handle.snapshot()).pending.find((pending) => pending.changeId === changeId);
  const digest = change?.digest ?? (options.digest?.length === WHOLE_DIGEST ? options.digest : undefined);
  const see = `countersign catalog show ${server} --tenant ${shellWord(tenant)}`;
  const facts = { tenant, server, changeId };
  if (digest === undefined) {
    const message = `No change ${changeId} waits in the catalog of ${server}. See: ${see}`;
    throw new CountersignError('REQUEST_NOT_OPEN', message, facts);
  }
  if (options.digest !== undefined && !digest.startsWith(options.digest)) {
    const message = `Change ${changeId} has digest ${digest}, not the one you named. Read it again (${see}) before you decide; nothing was sent.`;
    throw new CountersignError('DIGEST_MISMATCH', message, facts);
  }
  const send = async (ids: MessageIds) => await handle.decide({ ...ids, changeId, digest, verdict });
  const ack = await sendAs(options, undefined, send, ` --digest ${digest}`);
  return decidedAnswer({ verdict, digest, ack, change }, await readChanged(handle, settings, ack));
}

export interface ToolsChange {
  readonly server: string;
  readonly tools: readonly string[];
  readonly all?: boolean;
  /** First characters of the hashes of definitions that the operator has looked at. */
  readonly hashes?: readonly string[];
  readonly change: Omit<ToolChange, 'tool' | 'acknowledge'>;
  /** Says whether to acknowledge each tool's definition: `always`, or only if a hash names it. */
  readonly acknowledge?: 'always' | 'named';
}

export async function changeTools(
  { countersign, settings }: Session,
  options: Changing,
  wanted: ToolsChange,
): Promise<Answer> {
  const { server, tools, all = false } = wanted;
  const handle = countersign.catalog(server, options.tenant);
  const snapshot = await handle.snapshot();
  const entries = chosenEntries(snapshot, tools, all).filter((entry) => !all || changes(entry, wanted));
  assertNamed(entries, wanted, options.tenant);
  const names = entries.map(({ name }) => name);
  const changed = entries.map((entry) => ({ tool: entry.name, ...wanted.change, ...noticeOf(entry, wanted) }));
  const acks = await sendChanges(handle, options, changed, options.expectedVersion ?? snapshot.policyVersion);
  return changeAnswer(snapshot, acks, await readChanged(handle, settings, acks.at(-1)), names);
}

/** Sends changes of tools, in several messages if need be. @param version that the first message changes */
export async function sendChanges(
  handle: CatalogHandle,
  options: Acting,
  all: readonly ToolChange[],
  version: number,
): Promise<readonly CatalogAck[]> {
  // An id stands for one message.
  const { requestId: _, ...later } = options;
  const acks: CatalogAck[] = [];
  for (let from = 0; from < all.length; from += MOST_TOOL_CHANGES) {
    const expectedVersion = acks.at(-1)?.policyVersion ?? version;
    const part = all.slice(from, from + MOST_TOOL_CHANGES);
    const sent = sendAs(from === 0 ? options : later, expectedVersion, (ids) =>
      handle.setToolPolicies({ ...ids, expectedVersion, changes: part }),
    );
    acks.push(await sent.catch(afterOthers(from, all.length)));
  }
  return acks;
}

/** The catalog speaks of one message: where it refuses one, the ones before were taken. */
function afterOthers(taken: number, all: number): (error: unknown) => never {
  return (error) => {
    if (taken === 0 || !(error instanceof CountersignError)) throw error;
    const message = `${error.message} That is said of the last ${all - taken} of ${all} tools: the change of the first ${taken} was taken. To go on, give the command once more.`;
    throw new CountersignError(error.code, message, error.facts, { cause: error });
  };
}

function changes({ setting }: CatalogEntry, { change }: ToolsChange): boolean {
  return directionsOf(setting, changedSetting(setting, { tool: '', ...change })).size > 0;
}

function isNamed({ definition: { hash } }: CatalogEntry, { hashes = [] }: ToolsChange): boolean {
  return hashes.some((prefix) => hash.startsWith(prefix));
}

function noticeOf(entry: CatalogEntry, wanted: ToolsChange): Pick<ToolChange, 'acknowledge'> {
  const isNoted = wanted.acknowledge === 'always' || (wanted.acknowledge === 'named' && isNamed(entry, wanted));
  return isNoted ? { acknowledge: entry.definition.hash } : {};
}

function assertNamed(entries: readonly CatalogEntry[], wanted: ToolsChange, tenant: string): void {
  const { server, hashes = [], acknowledge } = wanted;
  const stale = hashes.find((prefix) => !entries.some(({ definition }) => definition.hash.startsWith(prefix)));
  const drifted =
    acknowledge === 'always' ? entries.find((entry) => hasDrifted(entry) && !isNamed(entry, wanted)) : undefined;
  if (drifted === undefined && stale === undefined) return;
  const what =
    drifted === undefined
      ? `No tool that you name has a definition with hash ${stale}`
      : `${visible(drifted.name)} is not what an operator has acknowledged, and no --hash names what it is now`;
  const message = `${what}. Read it first (countersign catalog diff ${server} --tenant ${shellWord(tenant)}), then add --hash with the hash that is shown there; nothing was sent.`;
  throw new CountersignError('DEFINITION_CHANGED', message, { server });
}

/** A listing takes as long as its server does, and one attempt lasts at most a minute. */
const DEFAULT_DEADLINE_SECONDS = 60;

/**
 * Waits for the end of a refresh and collects what has changed.
 * @throws CountersignError with the code of a refresh that failed, or `RESULT_UNCERTAIN` if the refresh goes on
 */
export async function awaitRefresh(
  handle: CatalogHandle,
  refresh: number,
  before: CatalogSnapshot | undefined,
  deadlineSeconds = DEFAULT_DEADLINE_SECONDS,
): Promise<Refreshed> {
  const report = await handle.settled(refresh, { deadlineMs: deadlineSeconds * 1_000 });
  const { tenant, server } = handle;
  if (!report.ok) {
    const { code, message = 'It failed without a reason.' } = report;
    throw new CountersignError(
      isErrorCode(code) ? code : 'DISCOVERY_FAILED',
      `Refresh ${report.refresh} of ${server} failed, and its tools are as they were: ${message}`,
      { tenant, server, refresh: report.refresh },
    );
  }
  const snapshot = await handle.snapshot();
  return { report, difference: refreshDifference(before?.entries ?? [], snapshot.entries), snapshot };
}

export function refreshDifference(
  before: readonly CatalogEntry[],
  after: readonly CatalogEntry[],
): Refreshed['difference'] {
  const known = new Map(before.map((entry) => [entry.name, entry]));
  const named = (isMeant: (is: CatalogEntry, was: CatalogEntry | undefined) => boolean): string[] =>
    after.filter((entry) => isMeant(entry, known.get(entry.name))).map(({ name }) => name);
  return {
    added: named((_is, was) => was === undefined),
    missing: named((is, was) => was?.status === 'available' && is.status === 'missing'),
    returned: named((is, was) => was?.status === 'missing' && is.status === 'available'),
    changed: named((is, was) => was !== undefined && was.definition.hash !== is.definition.hash),
  };
}
