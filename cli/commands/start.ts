/** `countersign start`: starts a run from a spec file, once. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import { type Answer, print } from '../answer.ts';
import type { MissingTool, RunHandle, RunSpecInput } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { RunResult } from '../../contracts/schemas/run-state.ts';
import { visible } from '../../domain/escape.ts';
import { readAuthorizations, readSealingKeys, sealingTargets } from '../authorizations.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, pairs } from '../options.ts';
import { withSession } from '../session.ts';
import { readSpec } from '../spec-file.ts';
import type { Terminal } from '../terminal.ts';
import { resultText } from '../views/run.ts';
import { pauseTeller, waitForResult } from '../wait.ts';

interface StartOptions extends GlobalOptions {
  readonly id?: string;
  readonly authorization?: Readonly<Record<string, string>>;
  readonly sealingKey?: Readonly<Record<string, string>>;
  readonly wait?: true;
}

/** What a worker that is there takes to look at a spec, and more. */
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

/** The run goes on without them: a mistyped name is told while somebody looks. */
function notThere(missing: readonly MissingTool[], servers: readonly { readonly name: string }[]): CountersignError {
  const texts = missing.map(({ server, name, near }) => {
    const path = `servers[${servers.findIndex((each) => each.name === server)}].allowedTools`;
    const hint = near.length === 0 ? '' : ` Did you mean ${near.join(', ')}?`;
    return `${path}: server ${server} has no tool "${name}".${hint}`;
  });
  return new CountersignError('TOOL_UNKNOWN', `${texts.join(' ')} The run goes on without.`);
}

/** Why nobody has taken it yet; where its spec is not taken, that is an error. @throws CountersignError */
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
