/**
 * Implements the verbs of `countersign catalog` that change a catalog: `connect`, `disconnect`, `allow`,
 * `ask`, `deny`, `enable`, `disable`, `approve` and `reject`.
 *
 * One file, because the verbs share how entries are chosen and how a change is sent.
 */
import type { Command } from 'commander';
import type { CatalogHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, isErrorCode } from '../../contracts/errors.ts';
import type { CatalogEntry, CatalogSnapshot, ToolChange } from '../../contracts/schemas/catalog.ts';
import { changedSetting, directionsOf } from '../../domain/catalog/settings.ts';
import { hasDrifted } from '../../domain/catalog/state.ts';
import { visible } from '../../domain/text/escape.ts';
import { type Answer, print } from '../session/answered.ts';
import { chosenEntries, readChanged, snapshotIfAny } from '../session/catalog-reading.ts';
import {
  type ActingOptions,
  addActor,
  addTenant,
  examples,
  hashPrefix,
  repeated,
  sendAs,
  wholeNumber,
} from '../session/options.ts';
import { type Session, withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import {
  changeAnswer,
  connectAnswer,
  decidedAnswer,
  type RefreshDifference,
  type Refreshed,
} from '../views/catalog-change.ts';

interface ConnectOptions extends ActingOptions {
  readonly url?: string;
  readonly credentials?: string;
  readonly trusted?: true;
  readonly taskQueue?: string;
  readonly anew?: true;
}

export function addConnect(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('connect')))
    .summary('begin a catalog, or change how its server is reached')
    .description(
      'Connect a server and list its tools; again, to change how it is reached: what is not said is then off',
    )
    .argument('<server>', 'name of the server')
    .option('--url <url>', "MCP endpoint (default: the server's in the configuration)")
    .option('--credentials <name>', "entry of `credentials` in the workers' configuration; never a secret")
    .option('--trusted', "the server's annotations may exempt calls from asking")
    .option('--task-queue <name>', 'queue whose workers reach the server')
    .option('--anew', 'also where the last catalog was terminated: without what was set there')
    .addHelpText(
      'after',
      examples(
        'catalog connect files --as ann',
        'catalog connect tickets --as ann --url https://tickets.example.com/mcp --credentials tickets-reader',
      ),
    )
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ConnectOptions>();
      const answer = await withSession(terminal, options, (session) => connect(session, server, options));
      print(terminal, answer, options.json === true);
    });
}

async function connect({ countersign, settings }: Session, server: string, options: ConnectOptions) {
  const { credentials, trusted, taskQueue } = options;
  const handle = countersign.catalog(server, options.tenant);
  const configured = Object.hasOwn(settings.serverUrls, server) ? settings.serverUrls[server] : undefined;
  const url = options.url ?? configured;
  if (url === undefined)
    throw new CountersignError('USAGE', `The configuration names no server ${server}; say where it is with --url.`);
  const anew = options.anew === true;
  const before = anew ? undefined : await snapshotIfAny(handle);
  const version = options.expectedVersion ?? before?.policyVersion;
  const ack = await sendAs(options, version, (ids) =>
    handle.connect(
      {
        ...ids,
        url,
        ...defined({ credentials, trusted, taskQueue, expectedVersion: version }),
      },
      { anew },
    ),
  );
  const refreshed = await awaitRefresh(handle, ack.refresh ?? 0, before, options.deadline);
  return connectAnswer(ack, refreshed, Date.now());
}

// `catalog disconnect` closes the server to every run.

export function addDisconnect(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('disconnect')))
    .summary('no run may use the server any more')
    .description('Offer no tool of the server any more; what is set of its tools is kept, and comes back with connect')
    .argument('<server>', 'name of the server')
    .addHelpText('after', examples('catalog disconnect files --as ann'))
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ActingOptions>();
      const { tenant } = options;
      const ack = await withSession(terminal, options, async ({ countersign }) => {
        const handle = countersign.catalog(server, tenant);
        const expectedVersion = options.expectedVersion ?? (await handle.snapshot()).policyVersion;
        return await sendAs(options, expectedVersion, (ids) => handle.disconnect({ ...ids, expectedVersion }));
      });
      print(
        terminal,
        {
          json: { tenant, server, ...ack },
          text: (paint) =>
            `${paint('red', 'disconnected')}  ${paint('bold', visible(server))}, version ${ack.policyVersion}`,
        },
        options.json === true,
      );
    });
}

// `catalog allow` stops the catalog from asking for a tool, and acknowledges the tool's definition as it was read.

interface AllowOptions extends ActingOptions {
  readonly hash?: readonly string[];
}

export function addAllow(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('allow')))
    .summary('ask for no countersignature, and deny nothing')
    .description(
      "Ask for no countersignature here and take notice of the definition; the organisation's policy and the run's still count",
    )
    .argument('<server>', 'name of the server')
    .argument('<tools...>', 'as the server spells them')
    .option(
      '--hash <sha256>',
      'of a definition that has changed: the hash, or 8 characters of it, that `diff` shows; may be given several times',
      hashPrefix,
    )
    .addHelpText(
      'after',
      examples(
        'catalog allow files read_file list_directory --as ann',
        'catalog allow files read_file --as ann --hash 5c1d09aa',
      ),
    )
    .action(async (server: string, tools: readonly string[], _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<AllowOptions>();
      const wanted = {
        server,
        tools,
        hashes: options.hash ?? [],
        change: { requiresApproval: false, denied: false },
        acknowledge: 'always',
      } as const;
      const answer = await withSession(terminal, options, (session) => changeTools(session, options, wanted));
      print(terminal, answer, options.json === true);
    });
}

// `catalog ask` makes every call of a tool wait for a countersignature.

interface AskOptions extends ActingOptions {
  readonly all?: true;
  readonly hash?: readonly string[];
  readonly approver?: readonly string[];
  readonly approverGroup?: readonly string[];
  readonly deadlineSeconds?: number;
  readonly need?: number;
  readonly notInitiator?: true;
}

export function addAsk(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('ask')))
    .summary('every call waits for a countersignature')
    .description('Let every call of these tools wait for a countersignature, whatever other policy says')
    .argument('<server>', 'name of the server')
    .argument('[tools...]', 'as the server spells them')
    .option('--all', 'all tools of the catalog')
    .option('--approver <id>', 'who may decide; may be given several times', repeated)
    .option('--approver-group <name>', 'a group that may decide; may be given several times', repeated)
    .option('--need <n>', 'so many of them must agree', wholeNumber)
    .option('--not-initiator', 'whoever started the run is none of them')
    .option('--deadline-seconds <n>', 'how long a request waits', wholeNumber)
    .option('--hash <sha256>', 'take notice of a definition that has changed, as `diff` shows it', hashPrefix)
    .addHelpText(
      'after',
      examples(
        'catalog ask files write_file --as ann --approver-group ops --deadline-seconds 3600',
        'catalog ask files --all --as ann',
        'catalog ask bank pay --as ann --approver-group finance --need 2 --not-initiator',
      ),
    )
    .action(async (server: string, tools: readonly string[], _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<AskOptions>();
      const {
        approver: ids = [],
        approverGroup: groups = [],
        need,
        notInitiator,
        deadlineSeconds,
        hash = [],
        all = false,
      } = options;
      if (ids.length + groups.length === 0 && (need !== undefined || notInitiator === true))
        throw new CountersignError('USAGE', '--need and --not-initiator go with a list: --approver, --approver-group.');
      const wanted = {
        server,
        tools,
        all,
        hashes: hash,
        acknowledge: 'named',
        change: {
          requiresApproval: true,
          denied: false,
          ...(ids.length + groups.length === 0
            ? {}
            : {
                approvers: {
                  ids: [...ids],
                  groups: [...groups],
                  ...defined({ need }),
                  ...(notInitiator === true ? { notInitiator } : {}),
                },
              }),
          ...defined({ deadlineSeconds }),
        },
      } as const;
      const answer = await withSession(terminal, options, (session) => changeTools(session, options, wanted));
      print(terminal, answer, options.json === true);
    });
}

// `catalog deny`, `enable` and `disable` each change one setting.

interface SwitchOptions extends ActingOptions {
  readonly all?: true;
}

const SWITCHES = [
  {
    verb: 'deny',
    summary: 'refuse every call',
    description: 'Refuse every call of these tools; agents still see them, and are told',
    change: { denied: true },
    takesAll: true,
  },
  {
    verb: 'enable',
    summary: 'let agents see a tool again',
    description: 'Let agents see these tools again; what is set of their calls stays',
    change: { enabled: true },
    takesAll: false,
  },
  {
    verb: 'disable',
    summary: 'take a tool away from agents',
    description: 'Take these tools away: agents do not see them, and no call of them is made',
    change: { enabled: false },
    takesAll: true,
  },
] as const;

export function addSwitches(catalog: Command, terminal: Terminal): void {
  for (const { verb, summary, description, change, takesAll } of SWITCHES) {
    const command = addActor(addTenant(catalog.command(verb)))
      .summary(summary)
      .description(description)
      .argument('<server>', 'name of the server')
      // Only commands that take something away apply to all tools at once.
      .argument(takesAll ? '[tools...]' : '<tools...>', 'as the server spells them')
      .addHelpText(
        'after',
        examples(
          `catalog ${verb} files write_file --as ann`,
          ...(takesAll ? [`catalog ${verb} files --all --as ann`] : []),
        ),
      )
      .action(async (server: string, tools: readonly string[], _own: unknown, itself: Command) => {
        const options = itself.optsWithGlobals<SwitchOptions>();
        const wanted = { server, tools, all: options.all === true, change };
        const answer = await withSession(terminal, options, (session) => changeTools(session, options, wanted));
        print(terminal, answer, options.json === true);
      });
    if (takesAll) command.option('--all', 'all tools of the catalog');
  }
}

// `catalog approve` and `catalog reject` send a second administrator's decision on a change that waits.

interface DecideOptions extends ActingOptions {
  readonly digest?: string;
}

const VERDICTS = [
  {
    verdict: 'approve',
    summary: 'agree to a change that waits',
    description: 'Agree to a change of somebody else: it then counts',
  },
  {
    verdict: 'reject',
    summary: 'refuse a change that waits',
    description: 'Close a change that waits; nothing of it counts',
  },
] as const;

type Verdict = (typeof VERDICTS)[number]['verdict'];

export function addDecide(catalog: Command, terminal: Terminal): void {
  for (const { verdict, summary, description } of VERDICTS) {
    addActor(addTenant(catalog.command(verdict)), { versioned: false })
      .summary(summary)
      .description(description)
      .argument('<server>', 'name of the server')
      .argument('<change>', 'id of the change, as `catalog show` has it')
      .option('--digest <sha256>', 'decide only the change with this digest')
      .addHelpText(
        'after',
        examples(
          `catalog ${verdict} files change-1 --as ben`,
          `catalog ${verdict} files change-1 --as ben --digest 3f8a…`,
        ),
      )
      .action(async (server: string, changeId: string, _own: unknown, command: Command) => {
        const options = command.optsWithGlobals<DecideOptions>();
        const answer = await withSession(terminal, options, (session) =>
          decide(session, { server, changeId, verdict }, options),
        );
        print(terminal, answer, options.json === true);
      });
  }
}

async function decide(
  { countersign, settings }: Session,
  { server, changeId, verdict }: { readonly server: string; readonly changeId: string; readonly verdict: Verdict },
  options: DecideOptions,
) {
  const { tenant } = options;
  const handle = countersign.catalog(server, tenant);
  const before = await handle.snapshot();
  const change = before.pending.find((pending) => pending.changeId === changeId);
  const digest = change?.digest ?? options.digest;
  if (digest === undefined)
    throw new CountersignError(
      'REQUEST_NOT_OPEN',
      `No change ${changeId} waits in the catalog of ${server}. See: countersign catalog show ${server} --tenant ${tenant}`,
      { tenant, server, changeId },
    );
  if (options.digest !== undefined && options.digest !== digest)
    throw new CountersignError(
      'DIGEST_MISMATCH',
      `Change ${changeId} has digest ${digest}, not the one you named. Read it again (countersign catalog show ${server} --tenant ${tenant}) before you decide; nothing was sent.`,
      { tenant, server, changeId },
    );
  const ack = await sendAs(options, undefined, (ids) => handle.decide({ ...ids, changeId, digest, verdict }));
  return decidedAnswer({ verdict, digest, ack, change }, await readChanged(handle, settings));
}

// Changes tool policies for `catalog allow`, `ask`, `deny`, `enable` and `disable`.
//
// 1. A change applies to the catalog version that was read. Another version is a conflict, and nothing is changed.
// 2. No definition is acknowledged that nobody has looked at: the operator names a changed one by its hash.

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
  options: ActingOptions,
  wanted: ToolsChange,
): Promise<Answer> {
  const { server, tools, all = false } = wanted;
  const handle = countersign.catalog(server, options.tenant);
  const snapshot = await handle.snapshot();
  const entries = chosenEntries(snapshot, tools, all).filter((entry) => !all || changes(entry, wanted));
  assertNamed(entries, wanted, options.tenant);
  const expectedVersion = options.expectedVersion ?? snapshot.policyVersion;
  const names = entries.map(({ name }) => name);
  const ack =
    entries.length === 0
      ? undefined
      : await sendAs(options, expectedVersion, (ids) =>
          handle.setToolPolicies({
            ...ids,
            expectedVersion,
            changes: entries.map((entry) => ({ tool: entry.name, ...wanted.change, ...noticeOf(entry, wanted) })),
          }),
        );
  return changeAnswer(snapshot, ack, await readChanged(handle, settings), names);
}

function changes({ setting }: CatalogEntry, { change }: ToolsChange): boolean {
  return directionsOf(setting, changedSetting(setting, { tool: '', ...change })).size > 0;
}

function noticeOf({ definition: { hash } }: CatalogEntry, wanted: ToolsChange): Pick<ToolChange, 'acknowledge'> {
  const { acknowledge, hashes = [] } = wanted;
  const isNamed = acknowledge === 'named' && hashes.some((prefix) => hash.startsWith(prefix));
  return acknowledge === 'always' || isNamed ? { acknowledge: hash } : {};
}

/** @throws CountersignError `DEFINITION_CHANGED` */
function assertNamed(entries: readonly CatalogEntry[], wanted: ToolsChange, tenant: string): void {
  const { server, hashes = [], acknowledge } = wanted;
  const isNamed = ({ definition }: CatalogEntry): boolean =>
    hashes.some((prefix) => definition.hash.startsWith(prefix));
  const stale = hashes.find((prefix) => !entries.some(({ definition }) => definition.hash.startsWith(prefix)));
  const drifted = acknowledge === 'always' ? entries.find((entry) => hasDrifted(entry) && !isNamed(entry)) : undefined;
  if (drifted === undefined && stale === undefined) return;
  const what =
    drifted === undefined
      ? `No tool that you name has a definition with hash ${stale}`
      : `${visible(drifted.name)} is not what an operator has acknowledged, and no --hash names what it is now`;
  throw new CountersignError(
    'DEFINITION_CHANGED',
    `${what}. Read it first (countersign catalog diff ${server} --tenant ${tenant}), then add --hash with the hash that is shown there; nothing was sent.`,
    { server },
  );
}

/** A listing takes as long as its server does, and one attempt lasts at most a minute. */
const DEFAULT_DEADLINE_SECONDS = 60;

/**
 * Waits for the end of a refresh and collects what has changed.
 * @param before absent if there was no catalog
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

export function refreshDifference(before: readonly CatalogEntry[], after: readonly CatalogEntry[]): RefreshDifference {
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
