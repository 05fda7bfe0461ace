/**
 * Implements `countersign artifacts`, which removes stored tool lists, segments and results that nobody
 * needs, and `countersign forget`.
 */
import { Client } from '@temporalio/client';
import { type Command, InvalidArgumentError } from 'commander';
import { assertHere } from '../../client/artifacts/namespaces.ts';
import { referencedArtifacts } from '../../client/artifacts/references.ts';
import { sweepArtifacts, type SweepReport } from '../../client/artifacts/sweep.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { visible } from '../../domain/text/escape.ts';
import { type Answer, print } from '../session/answered.ts';
import { examples, type GlobalOptions, repeated } from '../session/options.ts';
import { type Session, withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { shortInstant } from '../views/format.ts';

interface SweepCommandOptions extends GlobalOptions {
  /** Age in milliseconds. */
  readonly olderThan?: number;
  readonly also?: readonly string[];
  readonly dryRun?: true;
}

const DAY_MS = 86_400_000;
const HISTORIES_TOLD = 500;

export function addArtifacts(program: Command, terminal: Terminal): void {
  const artifacts = program
    .command('artifacts')
    .summary('keep the artifact store small')
    .description('Keep the artifact store small')
    .addHelpText('after', examples('artifacts sweep --older-than 90d --dry-run'));
  artifacts
    .command('sweep')
    .summary('remove what nobody needs any more')
    .description(
      'Remove from the artifact directory what was put long ago and is named by no history that Temporal retains, nor by anything that is kept. Histories of every namespace whose workers have recorded it in the directory are read, and refused is where one is not at this Temporal service; name with --also one whose workers are all of an earlier release',
    )
    .option('--older-than <age>', 'least age, such as 90d or 48h; default: artifacts.retentionDays', age)
    .option(
      '--also <namespace>',
      'another namespace that uses this directory and is not recorded there; may be repeated',
      repeated,
    )
    .option('--dry-run', 'tell what would be removed, and remove nothing')
    .addHelpText(
      'after',
      examples('artifacts sweep --older-than 90d --dry-run', 'artifacts sweep --older-than 90d --also staging'),
    )
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<SweepCommandOptions>();
      const answer = await withSession(terminal, options, async (session) => await sweep(terminal, session, options));
      print(terminal, answer, options.json === true);
    });
}

async function sweep(
  terminal: Terminal,
  { client, settings, deadlineMs }: Session,
  { olderThan, also = [], dryRun, json }: SweepCommandOptions,
): Promise<Answer> {
  const { artifacts, retentionDays } = settings;
  if (artifacts.kind !== 'directory')
    throw new CountersignError(
      'USAGE',
      'A bucket is emptied by a lifecycle rule of its own: docs/operations/artifacts.md.',
    );
  const leastAge = olderThan ?? (retentionDays === undefined ? undefined : retentionDays * DAY_MS);
  if (leastAge === undefined)
    throw new CountersignError(
      'USAGE',
      'Say how old: --older-than 90d, or artifacts.retentionDays in the configuration.',
    );
  const { connection } = client;
  const { namespace, dataConverter } = client.options;
  const read = new Set([namespace, ...also]);
  const tell = (count: number): void => {
    if (json !== true && count % HISTORIES_TOLD === 0) terminal.err(`${count} histories read\n`);
  };
  const report = await sweepArtifacts({
    directory: artifacts.directory,
    before: Date.now() - leastAge,
    dryRun: dryRun === true,
    referenced: async (recorded) => {
      await assertHere(client, artifacts.directory, recorded, deadlineMs);
      for (const { name } of recorded) read.add(name);
      const found = new Map<string, ReadonlySet<string>>();
      for (const name of read) {
        const each = new Client({ connection, namespace: name, dataConverter });
        found.set(name, await referencedArtifacts(each, tell));
      }
      return found;
    },
  });
  return sweepAnswer(report, {
    directory: artifacts.directory,
    namespaces: [...read],
    dryRun: dryRun === true,
  });
}

interface Swept {
  readonly directory: string;
  readonly namespaces: readonly string[];
  readonly dryRun: boolean;
}

function sweepAnswer(report: SweepReport, { directory, namespaces, dryRun }: Swept): Answer {
  const bytes = report.removed.reduce((sum, each) => sum + each.bytes, 0);
  return {
    json: { directory, namespaces, dryRun, ...report, bytes },
    text: () =>
      [
        `${report.artifacts} artifacts in ${directory}: ${report.young} young, ${report.needed} older and needed in ${namespaces.join(', ')} or by what is kept.`,
        `${dryRun ? 'Would remove' : 'Removed'} ${report.removed.length}, ${bytes} bytes.`,
      ].join('\n'),
  };
}

function age(text: string): number {
  const [, count, unit] = /^(\d{1,5})(d|h)$/.exec(text) ?? [];
  const ms = Number(count) * (unit === 'd' ? DAY_MS : 3_600_000);
  // The bound is an hour, since a reference on its way into history is minutes old.
  if (!(ms >= 3_600_000))
    throw new InvalidArgumentError('It must be days or hours, an hour at least, such as 90d or 48h.');
  return ms;
}

// `countersign forget` takes a standing decision back.

interface ForgetOptions extends GlobalOptions {
  readonly as: string;
  readonly group?: string[];
  readonly comment?: string;
}

export function addForget(program: Command, terminal: Terminal): void {
  program
    .command('forget')
    .summary('take a standing decision back')
    .description('Take a standing decision back: later calls that it would have answered are asked again')
    .argument('<run>', 'run id')
    .argument('<decision>', 'id of the decision, as `countersign show` lists it')
    .requiredOption('--as <id>', 'who takes it back; somebody who may decide such calls')
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--comment <text>', 'kept in the ledger')
    .addHelpText('after', examples('forget nightly-42 5b0c… --as ann'))
    .action(async (runId: string, standing: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ForgetOptions>();
      const { as: id, group = [], comment } = options;
      const ack = await withSession(terminal, options, ({ countersign }) =>
        countersign.run(runId).forget({
          standing,
          by: { id, groups: group },
          ...defined({ comment }),
        }),
      );
      print(
        terminal,
        {
          json: { runId, ...ack },
          text: (paint) =>
            `${paint('yellow', 'forgotten')}  ${visible(ack.standing)} by ${visible(ack.forgottenBy)} at ${shortInstant(ack.forgottenAt)}`,
        },
        options.json === true,
      );
    });
}
