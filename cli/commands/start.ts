/** `countersign start`: starts a run from a spec file, once. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import { type Answer, print } from '../answer.ts';
import type { RunResult } from '../../contracts/schemas/run-state.ts';
import { visible } from '../../domain/escape.ts';
import { readAuthorizations, readSealingKeys, sealingTargets } from '../authorizations.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, pairs } from '../options.ts';
import { withSession } from '../session.ts';
import { readSpec } from '../spec-file.ts';
import type { Terminal } from '../terminal.ts';
import { resultText } from '../views/run.ts';
import { waitForResult } from '../wait.ts';

interface StartOptions extends GlobalOptions {
  readonly id?: string;
  readonly authorization?: Readonly<Record<string, string>>;
  readonly sealingKey?: Readonly<Record<string, string>>;
  readonly wait?: true;
}

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
      const result = wait === true ? await waitForResult(run, deadline) : undefined;
      return startAnswer(runId, run.started, result);
    },
    ({ serverUrls }) => sealingTargets(keys, serverUrls, spec),
  );
}

function startAnswer(runId: string, started: boolean, result: RunResult | undefined): Answer {
  const shown = visible(runId);
  return {
    json: { runId, started, ...(result === undefined ? {} : { result }) },
    text: (paint) => {
      if (result !== undefined) return resultText(runId, result, paint);
      const what = started ? paint('green', 'started') : 'was started before with this spec; nothing was changed';
      return `${paint('bold', shown)}  ${what}\n${paint('dim', `  countersign watch ${shown}\n  countersign requests ${shown}\n  countersign result ${shown}`)}`;
    },
  };
}
