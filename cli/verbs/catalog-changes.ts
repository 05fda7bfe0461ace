/**
 * Implements the verbs of `countersign catalog` that change a catalog: `connect`, `disconnect`, `allow`,
 * `ask`, `deny`, `enable`, `disable`, `approve` and `reject`.
 */
import type { Command } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';
import { visible } from '../../domain/text/escape.ts';
import { print } from '../session/answered.ts';
import { awaitRefresh, changeTools } from './catalog-change.ts';
import { readChanged, snapshotIfAny } from '../session/catalog-reading.ts';
import { examples } from '../session/examples.ts';
import {
  type ActingOptions,
  addActor,
  addTenant,
  hashPrefix,
  repeated,
  sendAs,
  wholeNumber,
} from '../session/options.ts';
import { type Session, withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { connectAnswer, decidedAnswer } from '../views/catalog-change.ts';

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
        ...(credentials === undefined ? {} : { credentials }),
        ...(trusted === undefined ? {} : { trusted }),
        ...(taskQueue === undefined ? {} : { taskQueue }),
        ...(version === undefined ? {} : { expectedVersion: version }),
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
                  ...(need === undefined ? {} : { need }),
                  ...(notInitiator === true ? { notInitiator } : {}),
                },
              }),
          ...(deadlineSeconds === undefined ? {} : { deadlineSeconds }),
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
