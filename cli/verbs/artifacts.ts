/**
 * Implements `countersign artifacts`, which removes stored tool lists, segments and results that nobody needs, and
 * `countersign forget`.
 */
import { Client } from '@temporalio/client';
import { InvalidArgumentError } from 'commander';
import { assertHere, referencedArtifacts, sweepArtifacts } from '../../client/artifacts/sweep.ts';
import { defined } from '../../contracts/defined.ts';
import { visible } from '../../domain/text/escape.ts';
import * as option from '../session/options.ts';
import type { Session } from '../session/session.ts';
import { type Answer, verb } from '../session/verb.ts';
import { shortInstant } from '../views/format.ts';

const DAY_MS = 86_400_000;

const SWEEPING = {
  olderThan: option.parsed(age, '<age>', 'least age, such as 90d or 48h; default: artifacts.retentionDays'),
  also: option.several('<namespace>', 'another namespace that uses this directory and is not recorded there'),
  dryRun: option.flag('tell what would be removed, and remove nothing'),
} satisfies option.OptionRows;

const SWEEP = verb({
  name: 'sweep',
  summary: 'remove artifacts that nothing needs any more',
  description:
    'Remove artifacts that are older than the given age and that nothing needs: no history that Temporal retains names them, and no artifact that is kept. The histories of every namespace are read that workers have recorded in the directory; nothing is removed if one of these namespaces is not at this Temporal service. Name with --also a namespace that is not recorded there',
  options: SWEEPING,
  examples: ['artifacts sweep --older-than 90d --dry-run', 'artifacts sweep --older-than 90d --also staging'],
  run: async ({ options, session }) => await session(async (opened) => sweep(opened, options)),
});

export const ARTIFACTS = verb({
  name: 'artifacts',
  summary: 'keep the artifact store small',
  description: 'Keep the artifact store small',
  examples: ['artifacts sweep --older-than 90d --dry-run'],
  verbs: [SWEEP],
});

async function sweep(
  { client, settings, deadlineMs }: Session,
  { olderThan, also = [], ...options }: option.Values<typeof SWEEPING> & option.GlobalOptions,
): Promise<Answer> {
  const { artifacts, retentionDays } = settings;
  if (artifacts.kind !== 'directory')
    throw option.usage('A bucket is emptied by a lifecycle rule of its own: docs/operations/artifacts.md.');
  const leastAge = olderThan ?? (retentionDays === undefined ? undefined : retentionDays * DAY_MS);
  if (leastAge === undefined)
    throw option.usage('Say how old: --older-than 90d, or artifacts.retentionDays in the configuration.');
  const { directory } = artifacts;
  const dryRun = options.dryRun === true;
  const { connection } = client;
  const { namespace, dataConverter } = client.options;
  const read = new Set([namespace, ...also]);
  const report = await sweepArtifacts({
    directory,
    before: Date.now() - leastAge,
    dryRun,
    referenced: async (recorded) => {
      await assertHere(client, directory, recorded, deadlineMs);
      for (const { name } of recorded) read.add(name);
      const found = new Map<string, ReadonlySet<string>>();
      for (const name of read) {
        const each = new Client({ connection, namespace: name, dataConverter });
        found.set(name, await referencedArtifacts(each));
      }
      return found;
    },
  });
  const bytes = report.removed.reduce((sum, each) => sum + each.bytes, 0);
  const namespaces = [...read];
  return {
    json: { directory, namespaces, dryRun, ...report, bytes },
    text: () =>
      [
        `${report.artifacts} artifacts in ${directory}: ${report.young} young, ${report.needed} older and needed in ${namespaces.join(', ')} or by what is kept.`,
        `${dryRun ? 'Would remove' : 'Removed'} ${report.removed.length}, ${bytes} bytes.`,
      ].join('\n'),
  };
}

/** @returns milliseconds */
function age(given: string): number {
  const [, count, unit] = /^(\d{1,5})(d|h)$/.exec(given) ?? [];
  const ms = Number(count) * (unit === 'd' ? DAY_MS : 3_600_000);
  // The bound is an hour, since a reference on its way into history is minutes old.
  if (!(ms >= 3_600_000))
    throw new InvalidArgumentError('It must be days or hours, an hour at least, such as 90d or 48h.');
  return ms;
}

export const FORGET = verb({
  name: 'forget',
  summary: 'take a standing decision back',
  description: 'Take a standing decision back: later calls that it would have answered are asked again',
  args: { run: option.RUN, decision: option.one('id of the decision, as `countersign show` lists it') },
  options: {
    as: option.actor('who takes it back; somebody who may decide such calls'),
    group: option.DECIDER_GROUP,
    comment: option.COMMENT,
  },
  examples: ['forget nightly-42 approve-t2.c0-by-ann-0b1c2d3e-4f5a --as ann'],
  run: async ({ args: { run: runId, decision: standing }, options, session }) => {
    const { as: id, group = [], comment } = options;
    const message = { standing, by: { id, groups: [...group] }, ...defined({ comment }) };
    const ack = await session(({ countersign }) => countersign.run(runId).forget(message));
    return {
      json: { runId, ...ack },
      text: (paint) =>
        `${paint('yellow', 'forgotten')}  ${visible(ack.standing)} by ${visible(ack.forgottenBy)} at ${shortInstant(ack.forgottenAt)}`,
    };
  },
});
