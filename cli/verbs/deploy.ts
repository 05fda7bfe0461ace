/** Implements `countersign deploy`, which moves new runs and waiting runs from one build of the workers to another. */
import { InvalidArgumentError } from 'commander';
import {
  Deployment,
  type DeploymentStatus,
  type Drained,
  type DrainOptions,
  type RolledBack,
  type Routed,
  type Watched,
} from '../../client/index.ts';
import { sentenceOf } from '../../client/engine/executions.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import * as option from '../session/options.ts';
import type { Session } from '../session/session.ts';
import { readingOptions } from '../session/stuck-run.ts';
import type { Paint, Terminal } from '../session/terminal.ts';
import { type Given, verb } from '../session/verb.ts';
import { count, duration, table } from '../views/format.ts';

const BUILD = option.one('build id, as in the first line of a worker');
const NAMED = {
  deployment: option.text('<name>', 'the worker deployment (default: worker.deployment.name of the configuration)'),
};

type Options = Given<Record<never, never>, typeof NAMED>['options'];

function deploymentOf({ client, settings, deadlineMs }: Session, { deployment }: Options): Deployment {
  const name = deployment ?? settings.deployment;
  if (name === undefined) {
    const message =
      'No deployment is named. Name it with --deployment, or set worker.deployment.name in the configuration of the workers and here.';
    throw option.usage(message);
  }
  return new Deployment({ client, name, deadlineMs });
}

const ID = verb({
  name: 'id',
  summary: 'print the build id of this code',
  description: 'Print the build id that workers of this code have. Asks nobody',
  examples: ['deploy id'],
  run: async () => {
    const build = await ownBuild();
    return { json: { build }, text: () => build };
  },
});

async function ownBuild(): Promise<string> {
  const { ownBundle } = await import('../../workers/bundle.ts');
  const { installSilentLog } = await import('../session/runtime.ts');
  installSilentLog();
  return (await ownBundle()).buildId;
}

const STATUS = verb({
  name: 'status',
  summary: 'list the builds, which of them takes new runs, and how many runs stay with each',
  description: 'List the builds of the deployment: which takes new runs, and how many open runs stay with each',
  options: NAMED,
  examples: ['deploy status', 'deploy status --json'],
  run: async ({ options, session }) => {
    const status = await session(async (opened) => deploymentOf(opened, options).status());
    return { json: status, text: (paint) => statusText(status, Date.now(), paint) };
  },
});

const PROMOTE = verb({
  name: 'promote',
  summary: 'have a build take all new runs',
  description:
    'Have a build take all new runs, and end a ramp to another build. Runs that have begun stay with their build; its workers must go on',
  args: { build: BUILD },
  options: NAMED,
  examples: ['deploy promote 3f8a1c09b2de'],
  run: async ({ args: { build }, options, session }) => {
    const done = await session(async (opened) => deploymentOf(opened, options).promote(build));
    return { json: done, text: (paint) => routedText(done, paint) };
  },
});

const RAMP = verb({
  name: 'ramp',
  summary: 'have a build take a share of new runs',
  description: 'Have a build take a share of new runs, chosen by their ids; 0 ends it',
  args: { build: BUILD },
  options: { ...NAMED, percent: option.needed(option.parsed(percent, '<number>', 'from 0 to 100')) },
  examples: ['deploy ramp 3f8a1c09b2de --percent 10', 'deploy ramp 3f8a1c09b2de --percent 0'],
  run: async ({ args: { build }, options, session }) => {
    const done = await session(async (opened) => deploymentOf(opened, options).ramp(build, options.percent));
    return { json: done, text: (paint) => routedText(done, paint) };
  },
});

function percent(given: string): number {
  const value = Number(given);
  if (given.trim() === '' || !(value >= 0 && value <= 100))
    throw new InvalidArgumentError('It must be a number from 0 to 100.');
  return value;
}

const ROLLBACK = verb({
  name: 'rollback',
  summary: 'go back to the build before',
  description:
    'End the ramp, or else make the build current again that was current before. Runs that were to move stay where they are. A second rollback goes no further back',
  options: { ...NAMED, to: option.text('<build>', 'the build to go back to, where Temporal cannot tell') },
  examples: ['deploy rollback', 'deploy rollback --to 91c0d7e4aa52'],
  run: async ({ options, session }) => {
    const done = await session(async (opened) => deploymentOf(opened, options).rollback(options.to));
    return { json: done, text: (paint) => rolledBackText(done, paint) };
  },
});

const WATCH = verb({
  name: 'watch',
  summary: 'look for a while how the runs of a build do',
  description:
    'Look for a while how the runs of a build do, and end with exit code 7 as soon as more than may be are stuck (their workflow tasks fail again and again) or have failed, or no worker of the build is left; interrupted, with 6. Changes nothing',
  args: { build: BUILD },
  options: {
    ...NAMED,
    for: option.preset(600, option.seconds('how long to look')),
    maxFailed: option.preset(0, option.wholeNumber('<number>', 'runs that may be stuck or fail')),
  },
  examples: ['deploy watch 3f8a1c09b2de', 'deploy watch 3f8a1c09b2de --for 1800 --max-failed 2'],
  run: async ({ args: { build }, options, session, terminal }) => {
    const seen = await session(async (opened) =>
      deploymentOf(opened, options).watch(build, {
        forMs: options.for * 1_000,
        maxFailed: options.maxFailed,
        signal: terminal.interrupted(),
      }),
    );
    return { json: seen, text: (paint) => watchedText(seen, paint), fault: watchFault(seen) };
  },
});

const MOST_NAMED = 3;

export function watchFault(seen: Watched): CountersignError | undefined {
  const { build, isWell, stuck, failed, unserved, interrupted, watchedMs, forMs } = seen;
  if (isWell) {
    if (interrupted === undefined) return undefined;
    const message = `The watch of build ${build} was interrupted after ${duration(watchedMs)} of ${duration(forMs)}, so it does not show that the build does well. Nothing was changed; watch again before you go on.`;
    return new CountersignError('WATCH_INCOMPLETE', message, { build });
  }
  const named = stuck.slice(0, MOST_NAMED).map(({ workflowId }) => workflowId);
  const which = named.length === 0 ? '' : ` (${named.join(', ')}${stuck.length > MOST_NAMED ? ', …' : ''})`;
  const nobody = unserved === undefined ? '' : ` No worker of it takes runs from task queue ${unserved} any more.`;
  const message = `Build ${build} has ${stuck.length} stuck runs${which}, and ${failed} have failed since the watch began.${nobody} Nothing was changed; go back: countersign deploy rollback`;
  return new CountersignError('BUILD_FAILING', message, { build, failed: stuck.length + failed });
}

const DRAIN = verb({
  name: 'drain',
  summary: 'move waiting runs from a build to the current one',
  description:
    'Ask the open runs of a build to continue as new on the current one, in batches, and wait until none is left. May be repeated',
  args: { build: BUILD },
  options: {
    ...NAMED,
    batch: option.preset(50, option.wholeNumber('<number>', 'runs that are under way at once')),
    within: option.preset(600, option.seconds('how long to wait until none is left')),
    move: option.flag('move runs by their options, after this code has replayed each: for Temporal before 1.32'),
    replayed: option.flag('with --move: `replay --live` of the current build has passed; replay nothing here'),
  },
  examples: ['deploy drain 91c0d7e4aa52', 'deploy drain 91c0d7e4aa52 --move --within 1800'],
  run: async ({ args: { build }, options, session, terminal }) => {
    if (options.replayed === true && options.move !== true) throw option.usage('--replayed goes with --move.');
    if (options.batch < 1) throw option.usage('--batch must be at least 1.');
    const drained = await session(async (opened) => {
      const mayMove = options.move === true ? await moving(opened, options.replayed === true) : undefined;
      return await deploymentOf(opened, options).drain(build, {
        batch: options.batch,
        withinMs: options.within * 1_000,
        signal: terminal.interrupted(),
        ...defined({ mayMove, tell: options.json === true ? undefined : progress(terminal) }),
      });
    });
    return { json: drained, text: (paint) => drainedText(drained, paint), fault: drainFault(drained) };
  },
});

function progress({ err }: Terminal): (left: number) => void {
  let told: number | undefined;
  return (left) => {
    if (left !== told) err(`${left} left\n`);
    told = left;
  };
}

type MayMove = NonNullable<DrainOptions['mayMove']>;

/** Replays each run with this code, which must be that of the current build, as `countersign replay --live` does. */
async function moving({ client, settings, deadlineMs }: Session, isReplayed: boolean): Promise<MayMove> {
  if (isReplayed) return async () => await Promise.resolve(undefined);
  const { liveHistory } = await import('../../workers/replay/replay.ts');
  const { takeoverFault } = await import('../../workers/replay/refusals.ts');
  const buildId = await ownBuild();
  const replaying = await readingOptions(settings, client.options.namespace);
  return async (execution, current) => {
    if (current !== buildId) {
      const message = `This command has the code of build ${buildId}, and ${current} is current: it cannot tell whether ${current} replays the runs. Nothing was moved. Run it where ${current} is installed, or name --replayed once \`countersign replay --live\` has passed there.`;
      throw new CountersignError('DRAIN_REFUSED', message, { build: current });
    }
    return (await takeoverFault(await liveHistory(client, execution, deadlineMs), replaying))?.message;
  };
}

export function drainFault({ build, current, left, unmoved, kept, unread }: Drained): CountersignError | undefined {
  const facts = { build, current, left };
  if (kept.length > 0) {
    const message = `${kept.length} runs do not replay with the code of ${current}, or are answered by it otherwise than every build must, and stay with build ${build}. Keep its workers, and see why: countersign replay --live`;
    return new CountersignError('REPLAY_FAILED', message, { ...facts, failed: kept.length });
  }
  if (left === 0) return undefined;
  const [first] = unread;
  const unknown =
    first === undefined
      ? ''
      : ` ${unread.length} of them were not asked, since nobody could tell whether ${current} replays them: ${first.reason}`;
  const message = `${left} runs are still with build ${build}, or have not worked on ${current} yet. They move once what they do now is over: keep its workers, and repeat the command; a larger --batch asks others beside them.${unmoved.length === 0 ? '' : ` Temporal has begun ${unmoved.length} of them on the build again: those move with --move.`}${unknown}`;
  return new CountersignError('DRAIN_INCOMPLETE', message, facts);
}

export const DEPLOY = verb({
  name: 'deploy',
  summary: 'move runs from one build of the workers to another',
  description:
    'See which build takes new runs, change it, and move runs that wait. For workers with worker.deployment.name',
  examples: ['deploy status', 'deploy promote 3f8a1c09b2de', 'deploy drain 91c0d7e4aa52'],
  verbs: [ID, STATUS, PROMOTE, RAMP, WATCH, ROLLBACK, DRAIN],
});

const MOST_SHOWN = 10;

export function statusText(
  { deployment, current, ramping, builds }: DeploymentStatus,
  now: number,
  paint: Paint,
): string {
  const rows = builds.map(({ build, state, runs, createdAt }) => [
    build,
    build === ramping?.build ? `${state} ${ramping.percent} %` : state,
    String(runs),
    `${duration(now - createdAt)} ago`,
  ]);
  const nobody =
    current === undefined
      ? `\nNo build takes new runs by this deployment; make one current: countersign deploy promote BUILD`
      : '';
  return `${paint('bold', deployment)}\n${table(paint, [['BUILD', 'STATE', 'OPEN RUNS', 'FIRST SEEN'], ...rows.map((row) => row.map(visible))])}${nobody}`;
}

export function routedText({ changed, current, ramping, ended }: Routed, paint: Paint): string {
  const rest = ramping === undefined ? '' : `, build ${visible(ramping.build)} takes ${ramping.percent} % of new runs`;
  const head = changed ? paint('green', 'changed') : paint('dim', 'unchanged');
  const tail =
    ended === undefined
      ? ''
      : `; the ramp that sent ${ended.percent} % of new runs to build ${visible(ended.build)} has ended`;
  return `${head}  ${current === undefined ? 'no build is current' : `build ${visible(current)} is current`}${rest}${tail}`;
}

export function rolledBackText(done: RolledBack, paint: Paint): string {
  const names = done.left.map(({ build }) => visible(build));
  const head = done.isEarliest
    ? [
        `  ${names.join(', ')} ${names.length === 1 ? 'was' : 'were'} left before, and there is no earlier build to go back to. Another one: countersign deploy rollback --to BUILD`,
      ]
    : [];
  const tails = done.left.flatMap(({ build, withdrawn, remaining }) => [
    ...(withdrawn > 0 ? [`  ${count(withdrawn, 'move')} to ${visible(build)} withdrawn`] : []),
    ...(remaining > 0
      ? [
          `  ${count(remaining, 'run')} on ${visible(build)}: keep its workers, or have them continue elsewhere: countersign deploy drain ${visible(build)}`,
        ]
      : []),
  ]);
  return [routedText(done, paint), ...head, ...tails].join('\n');
}

export function watchedText(seen: Watched, paint: Paint): string {
  const { build, isWell, open, ended, failed, stuck, unserved, watchedMs, forMs, interrupted } = seen;
  const isOver = interrupted === undefined;
  const isSeen = open + ended + stuck.length > 0;
  const well = isSeen
    ? isOver
      ? paint('green', 'does well')
      : paint('yellow', 'does well so far')
    : paint('yellow', 'saw no run');
  const head = isWell ? well : paint('red', 'does not do well');
  const short = isOver ? '' : `\n  Interrupted: watched ${duration(watchedMs)} of ${duration(forMs)}.`;
  const named = stuck
    .slice(0, MOST_SHOWN)
    .map(
      ({ workflowId, attempts }) => `\n  ${visible(workflowId)}  its workflow task has failed ${attempts - 1} times`,
    );
  const nobody =
    unserved === undefined ? '' : `\n  No worker of it takes runs from task queue ${visible(unserved)} any more.`;
  const nothing = isSeen ? '' : '\n  No run was seen: this shows nothing of the build.';
  return `${head}  ${visible(build)}: ${open} open, ${ended} ended, ${failed} of them failed, ${stuck.length} stuck${named.join('')}${nobody}${nothing}${short}`;
}

export function drainedText({ build, current, asked, left, unmoved, kept, unread }: Drained, paint: Paint): string {
  const head = left === 0 ? paint('green', 'drained') : paint('yellow', 'not drained');
  const stayed = [...kept, ...unread];
  const named = stayed
    .slice(0, MOST_SHOWN)
    .map(({ workflowId, reason }) => `\n  ${visible(workflowId)}  ${bounded(visible(sentenceOf(reason)), 300)}`);
  const more = stayed.length > MOST_SHOWN ? `\n  and ${stayed.length - MOST_SHOWN} more` : '';
  const again = unmoved
    .slice(0, MOST_SHOWN)
    .map((workflowId) => `\n  ${visible(workflowId)}  Temporal has begun it on ${visible(build)} again`);
  return `${head}  ${visible(build)}: ${count(asked, 'run')} asked to continue on ${visible(current)}, ${left} left${named.join('')}${more}${again.join('')}`;
}
