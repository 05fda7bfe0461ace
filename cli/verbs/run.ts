/** Implements the verbs of one run: `start`, `show`, `watch`, `result`, `stop` and `say`. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { CallProgress, LedgerEntry, MissingTool, RunHandle, RunSpecInput } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Say } from '../../contracts/schemas/request.ts';
import type { RunningTask } from '../../contracts/schemas/legacy-2025.ts';
import type { Advance, RunResult } from '../../contracts/schemas/run-state.ts';
import { visible } from '../../domain/text/escape.ts';
import { type Answer, print } from '../session/answered.ts';
import { readAuthorizations, readSealingKeys, sealingTargets } from '../session/authorizations.ts';
import { examples, type GlobalOptions, pairs, repeated, wholeNumber } from '../session/options.ts';
import { readSpec } from '../session/files.ts';
import { withSession } from '../session/session.ts';
import { ledgerOfStuck, toldOrRead } from '../session/stuck-run.ts';
import type { Paint, Terminal } from '../session/terminal.ts';
import { pauseTeller, retryTeller, waitForResult } from '../session/wait.ts';
import { entryText } from '../views/ledger.ts';
import { openText, stuckError, stuckJson, stuckText } from '../views/recovery.ts';
import { progressText, resultText, stateText, taskText } from '../views/run.ts';

interface StartOptions extends GlobalOptions {
  readonly id?: string;
  readonly authorization?: Readonly<Record<string, string>>;
  readonly sealingKey?: Readonly<Record<string, string>>;
  readonly wait?: true;
}

/** A running worker checks a spec in much less time. */
const FIRST_WORD_SECONDS = 5;

export function addStart(program: Command, terminal: Terminal): void {
  program
    .command('start')
    .summary('start a run from a spec file')
    .description('Start a run; the same id with the same spec is the same run')
    .argument('<spec>', 'run spec, JSON or YAML; - for standard input')
    .option(
      '--id <run>',
      'run id; choose one that names the work, so that starting twice is harmless (default: a random one)',
    )
    .option(
      '--authorization <server=VARIABLE>',
      'your own access token for a server, read from this environment variable and sealed here',
      pairs,
    )
    .option(
      '--sealing-key <server=file>',
      'public JWK of the zone that holds the server (see: countersign keys)',
      pairs,
    )
    .option('--wait', 'wait for the result; with --deadline, no longer than that')
    .addHelpText(
      'after',
      examples(
        'start examples/write-a-summary.yaml --id summary-1',
        'start spec.json --id nightly-42 --wait --deadline 3600',
        'start - --id nightly-42 --authorization tickets=TICKETS_TOKEN --sealing-key tickets=zone.jwk < spec.yaml',
      ),
    )
    .action(async (source: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<StartOptions>();
      print(terminal, await start(source, options, terminal), options.json === true);
    });
}

async function start(source: string, options: StartOptions, terminal: Terminal): Promise<Answer> {
  const { id: runId = `run-${randomUUID()}`, authorization = {}, sealingKey = {}, wait, deadline } = options;
  const spec = await readSpec(source, terminal);
  const authorizations = readAuthorizations(authorization, terminal.env);
  const keys = await readSealingKeys(sealingKey, terminal.directory);
  return await withSession(
    terminal,
    options,
    async ({ countersign, settings: { taskQueue } }) => {
      const run = await countersign.startRun({ runId, spec, authorizations, taskQueue });
      const trouble = run.started ? await troubleAtStart(run, spec, options) : undefined;
      if (wait !== true) return startAnswer(runId, run.started, trouble);
      return waitedAnswer(runId, run.started, await waitForResult(run, deadline, pauseTeller(terminal, options)));
    },
    ({ serverUrls }) => sealingTargets(keys, serverUrls, spec),
  );
}

/**
 * Reports names in `allowedTools` that no server has. The run goes on without them, so a typing error is reported while
 * the user still looks.
 */
function notThere(missing: readonly MissingTool[], servers: readonly { readonly name: string }[]): CountersignError {
  const texts = missing.map(({ server, name, near }) => {
    const path = `servers[${servers.findIndex((each) => each.name === server)}].allowedTools`;
    const hint = near.length === 0 ? '' : ` Did you mean ${near.join(', ')}?`;
    return `${path}: server ${server} has no tool "${name}".${hint}`;
  });
  return new CountersignError('TOOL_UNKNOWN', `${texts.join(' ')} The run goes on without.`);
}

/**
 * Returns why no worker has taken the run yet.
 * @throws CountersignError if the spec is refused
 */
async function troubleAtStart(
  run: RunHandle,
  { servers }: RunSpecInput,
  { deadline }: StartOptions,
): Promise<CountersignError | undefined> {
  try {
    const seconds = Math.min(FIRST_WORD_SECONDS, deadline ?? FIRST_WORD_SECONDS);
    const missing = await run.begun({ deadlineMs: seconds * 1_000 });
    return missing.length === 0 ? undefined : notThere(missing, servers ?? []);
  } catch (error) {
    if (error instanceof CountersignError && error.code === 'ENGINE_UNAVAILABLE') return error;
    throw error;
  }
}

function waitedAnswer(runId: string, started: boolean, result: RunResult): Answer {
  return { json: { runId, started, result }, text: (paint) => resultText(runId, result, paint) };
}

function startAnswer(runId: string, started: boolean, trouble: CountersignError | undefined): Answer {
  const shown = visible(runId);
  const warning = trouble === undefined ? {} : { warning: { code: trouble.code, message: trouble.message } };
  return {
    json: { runId, started, ...warning },
    text: (paint) => {
      const what = started ? paint('green', 'started') : 'was started before with this spec; nothing was changed';
      const waits = trouble === undefined ? '' : `\n${paint('yellow', `  ${visible(trouble.message)}`)}`;
      return `${paint('bold', shown)}  ${what}${waits}\n${paint('dim', `  countersign watch ${shown}\n  countersign requests ${shown}\n  countersign result ${shown}`)}`;
    },
  };
}

// `countersign show` shows the state of a run; for a stuck run, what its history says.

export function addShow(program: Command, terminal: Terminal): void {
  program
    .command('show')
    .summary('where a run is')
    .description('Where a run is: status, what waits, what stands, tokens, spend, limits, ledger head')
    .argument('<run>', 'run id')
    .addHelpText('after', examples('show nightly-42', 'show nightly-42 --json'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const { told, stuck } = await withSession(terminal, options, async (session) =>
        toldOrRead(session, runId, async () => {
          const run = session.countersign.run(runId);
          return { state: await run.state(), retries: await run.retries() };
        }),
      );
      if (stuck === undefined) {
        const { state, retries } = told;
        const json = { ...state, ...(retries.length === 0 ? {} : { retries }) };
        const text = (paint: Paint): string => stateText(state, Date.now(), paint, retries);
        return print(terminal, { json, text }, options.json === true);
      }
      const { state } = stuck.answers;
      const text = (paint: Paint): string =>
        [
          stuckText(stuck, paint),
          ...(state === undefined ? [] : [stateText(state, Date.now(), paint)]),
          openText(stuck, paint),
        ]
          .filter((part) => part !== '')
          .join('\n');
      print(terminal, { json: { ...state, stuck: stuckJson(stuck) }, text }, options.json === true);
    });
}

// `countersign watch` prints ledger entries as they are written. A pause of the workers does not end it; the user is
// told once that the run waits, and why.
// A run that is stuck from the start is shown as far as its history can be read, with the note that it is stuck.

interface WatchOptions extends GlobalOptions {
  readonly from?: number;
}

export function addWatch(program: Command, terminal: Terminal): void {
  program
    .command('watch')
    .summary('the events of a run as they happen')
    .description(
      'The events of a run as they happen, until it ends; with --deadline no longer than that, with --json one entry per line',
    )
    .argument('<run>', 'run id')
    .option('--from <number>', 'number of the first entry wanted (default: 0)', wholeNumber)
    .addHelpText(
      'after',
      examples('watch nightly-42', 'watch nightly-42 --from 17 --json', 'watch nightly-42 --deadline 60'),
    )
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<WatchOptions>();
      const watchOptions = {
        cursor: options.from ?? 0,
        signal: terminal.interrupted(),
        ...(options.deadline === undefined ? {} : { deadlineMs: options.deadline * 1_000 }),
        onPause: pauseTeller(terminal, options),
        onRetry: retryTeller(terminal, options),
      };
      // News of tasks belongs to no entry; in JSON every line is an entry.
      const onTasks = (news: readonly RunningTask[]): void =>
        news.forEach((task) => terminal.err(`working: ${taskText(task)}\n`));
      const onProgress = (news: readonly CallProgress[]): void =>
        news.forEach((call) => terminal.err(`working: ${progressText(call)}\n`));
      const heard = options.json === true ? watchOptions : { ...watchOptions, onTasks, onProgress };
      let next = watchOptions.cursor;
      const tell = (entry: LedgerEntry): void => {
        print(terminal, { json: entry, text: (paint) => entryText(entry, paint) }, options.json === true);
        next = entry.seq + 1;
      };
      await withSession(terminal, options, async (session) => {
        const { stuck } = await toldOrRead(session, runId, async () => {
          for await (const entry of session.countersign.run(runId).watch(heard)) tell(entry);
        });
        if (stuck === undefined) return;
        for (const entry of await ledgerOfStuck(session, stuck, next)) tell(entry);
        throw stuckError(stuck, next);
      });
    });
}

// `countersign result` waits for the end of a run.

export function addResult(program: Command, terminal: Terminal): void {
  program
    .command('result')
    .summary('wait for the end of a run')
    .description('Wait for the end of a run and print its answer; with --deadline, no longer than that')
    .argument('<run>', 'run id')
    .addHelpText('after', examples('result nightly-42', 'result nightly-42 --deadline 60 --json'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const result = await withSession(terminal, options, ({ countersign }) =>
        waitForResult(countersign.run(runId), options.deadline, pauseTeller(terminal, options)),
      );
      print(
        terminal,
        { json: { runId, ...result }, text: (paint) => resultText(runId, result, paint) },
        options.json === true,
      );
    });
}

// `countersign stop` ends a run without failing it.

interface StopOptions extends GlobalOptions {
  readonly as: string;
  readonly reason: string;
  readonly group?: readonly string[];
  readonly cancelCalls?: true;
}

export function addStop(program: Command, terminal: Terminal): void {
  program
    .command('stop')
    .summary('end a run')
    .description('End a run: what waits is withdrawn, calls in flight finish unless they are cancelled')
    .argument('<run>', 'run id')
    .requiredOption('--as <id>', 'who stops it')
    .requiredOption('--reason <text>', 'kept in the ledger')
    .option(
      '--group <name>',
      'a group that a signing key claims; may be given several times (default: those of a personal key)',
      repeated,
    )
    .option('--cancel-calls', 'cancel calls in flight too')
    .addHelpText('after', examples('stop nightly-42 --as ann --reason "started by mistake"'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<StopOptions>();
      const stop = {
        by: options.as,
        reason: options.reason,
        inFlight: options.cancelCalls === true ? 'cancel' : 'finish',
      } as const;
      const { status } = await withSession(terminal, { ...options, claims: options.group }, ({ countersign }) =>
        countersign.run(runId).stop(stop),
      );
      print(
        terminal,
        {
          json: { runId, stopping: true, status },
          text: (paint) =>
            `Run ${paint('bold', visible(runId))} is stopping. See: countersign result ${visible(runId)}`,
        },
        options.json === true,
      );
    });
}

// `countersign say` sends a message to the model of a run.

interface SayOptions extends GlobalOptions {
  readonly as: string;
  readonly text: string;
  readonly group?: readonly string[];
  readonly interrupt?: true;
  readonly messageId?: string;
}

export function addSay(program: Command, terminal: Terminal): void {
  program
    .command('say')
    .summary('tell the model of a run something')
    .description('Add a user message: the model reads it once the calls of its turn have ended')
    .argument('<run>', 'run id')
    .requiredOption('--as <id>', 'who says it')
    .requiredOption('--text <text>', 'what the model reads')
    .option(
      '--group <name>',
      'a group that a signing key claims; may be given several times (default: those of a personal key)',
      repeated,
    )
    .option('--interrupt', 'withdraw the requests that wait, so that it is read once nothing is in flight')
    .option('--message-id <id>', 'the id of a message whose answer got lost: sent again, it is read once')
    .addHelpText(
      'after',
      examples(
        'say nightly-42 --as ann --text "ticket 12 is solved, leave it out"',
        'say nightly-42 --as ann --text "wrong customer" --interrupt',
      ),
    )
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<SayOptions>();
      const { as: from, text, interrupt, messageId = randomUUID() } = options;
      const message = { messageId, text, from, ...defined({ interrupt }) };
      const { status } = await withSession(terminal, { ...options, claims: options.group }, ({ countersign }) =>
        sayTo(countersign.run(runId), message),
      );
      const when = interrupt === true ? 'what waited is withdrawn' : 'read when the turn ends';
      print(
        terminal,
        {
          json: { runId, messageId, status },
          text: (paint) => `Run ${paint('bold', visible(runId))} has message ${visible(messageId)}: ${when}.`,
        },
        options.json === true,
      );
    });
}

/** Sends the message. If the answer is lost, the error names the id under which the message counts once. */
export async function sayTo(run: Pick<RunHandle, 'say'>, message: Say): Promise<Advance> {
  try {
    return await run.say(message);
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const { messageId } = message;
    const text = `${error.message} Here: add --message-id ${messageId}`;
    throw new CountersignError(error.code, text, { ...error.facts, messageId }, { cause: error });
  }
}
