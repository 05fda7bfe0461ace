/** Shows a worker deployment, and what was changed of it. */
import type { DeploymentStatus, Drained, RolledBack, Routed, Watched } from '../../client/index.ts';
import { sentenceOf } from '../../client/engine/executions.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import type { Paint } from '../session/terminal.ts';
import { count, duration, table } from './format.ts';

const MOST_NAMED = 10;

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
    .slice(0, MOST_NAMED)
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
    .slice(0, MOST_NAMED)
    .map(({ workflowId, reason }) => `\n  ${visible(workflowId)}  ${bounded(visible(sentenceOf(reason)), 300)}`);
  const more = stayed.length > MOST_NAMED ? `\n  and ${stayed.length - MOST_NAMED} more` : '';
  const again = unmoved
    .slice(0, MOST_NAMED)
    .map((workflowId) => `\n  ${visible(workflowId)}  Temporal has begun it on ${visible(build)} again`);
  return `${head}  ${visible(build)}: ${count(asked, 'run')} asked to continue on ${visible(current)}, ${left} left${named.join('')}${more}${again.join('')}`;
}
