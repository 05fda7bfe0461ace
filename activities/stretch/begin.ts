/**
 * The first activity of a run. It checks the spec. On a worker of both roles it also lists the tools of all servers,
 * and takes the first stretch (docs/adr/0062).
 *
 * 1. Only the check fails the activity, and a provider that calls where it is asked for a list. A list that does not
 *    come, and a model that does not answer, are left to the run; a model's final refusal is told to it.
 * 2. What was done is on record before any call leaves, the prepared run included; `stretch.ts` says the rest.
 */
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { RunSpec } from '../../contracts/schemas/run-spec.ts';
import type { Discovery } from '../../contracts/schemas/tool.ts';
import type { RunActivities, ToolActivities } from '../../contracts/wire/activities.ts';
import type { PreparedRun } from '../../contracts/wire/run.ts';
import type { BegunRun, StretchInput } from '../../contracts/wire/stretch.ts';
import { firstStretch, identityOf, type RunPlace } from '../../domain/run/stretch.ts';
import { listingInput } from '../../domain/run/toolset.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { currentScheduler } from '../kit/activity.ts';
import { Lifeline } from './lifeline.ts';
import { finalFailure, goOn, recordLeft, type StretchParts } from './stretch.ts';

export interface BeginParts extends StretchParts {
  readonly prepareRun: (spec: unknown) => Promise<PreparedRun>;
  /** Absent on a worker that calls no servers: the run lists the tools itself. */
  readonly discoverTools?: ToolActivities['discoverTools'] | undefined;
}

/** A prepared run travels with each heartbeat. A larger one lists its tools and takes its first stretch itself. */
export const MOST_BEGUN_BYTES = 65_536;

/** Time of the lists and the model steps; a step of a later stretch has as much. */
const MOST_MS = 900_000;

function fits(record: object): boolean {
  return byteLength(JSON.stringify(record)) <= MOST_BEGUN_BYTES;
}

export function createBegin(parts: BeginParts): RunActivities['prepareRun'] {
  return async (spec, alone) => {
    if (!parts.believesRecords) return await parts.prepareRun(spec);
    const { prepared, turns, ...lists } = recordLeft();
    // An attempt before this one got so far.
    if (prepared !== undefined) return begun(prepared, lists, { turns });
    const life = new Lifeline(parts);
    return await life.through(async () => await begin(parts, life, spec, alone === true));
  };
}

async function begin(parts: BeginParts, life: Lifeline, spec: unknown, alone: boolean): Promise<BegunRun> {
  const prepared = await parts.prepareRun(spec);
  const preparedAt = Date.now();
  if (alone || prepared.stretch === undefined || !fits({ prepared })) return prepared;
  life.record.begin({ prepared });
  // Sound: `prepareRun` has accepted it.
  const accepted = spec as RunSpec;
  const place = placeOf();
  life.endAt(Math.min(Date.now() + MOST_MS, place.startedAt + prepared.limits.wallClockSeconds * 1_000));
  const found = await listed(parts, life, accepted, prepared, place);
  if (found === undefined || life.isEnding) return prepared;
  const input = firstStretch(accepted, prepared, found, place);
  const lists: Listed = { found, times: { prepared: preparedAt, listed: Date.now() } };
  if (input === undefined || !fits({ prepared, ...lists })) return begun(prepared, lists, {});
  life.record.begin({ prepared, ...lists });
  return begun(prepared, lists, await firstTurns(parts, life, input));
}

type FirstTurns = Partial<Pick<BegunRun, 'turns' | 'failed'>>;

async function firstTurns(parts: BeginParts, life: Lifeline, input: StretchInput): Promise<FirstTurns> {
  try {
    return await goOn(parts, life, input);
  } catch (error) {
    // The work is on record, and is not dropped.
    if (!life.record.isEmpty) throw error;
    return defined({ failed: finalFailure(error) });
  }
}

/** Lists the tools of all servers; undefined if one of them does not give them at once. */
async function listed(
  { discoverTools }: BeginParts,
  life: Lifeline,
  { grants }: RunSpec,
  prepared: PreparedRun,
  place: RunPlace,
): Promise<readonly Discovery[] | undefined> {
  const { servers } = prepared;
  if (discoverTools === undefined || servers.some(({ taskQueue }) => taskQueue !== undefined)) return undefined;
  const run = identityOf(place, prepared);
  const lists = servers.map(
    async (server) => await life.step(async () => await discoverTools(listingInput(run, grants, prepared, server))),
  );
  try {
    const each = await Promise.all(lists);
    const found = each.filter((list) => 'tools' in list);
    return found.length === servers.length ? found : undefined;
  } catch {
    for (const list of await Promise.allSettled(lists)) {
      // To ask this provider again might make its call again.
      if (list.status === 'rejected' && codedFailureIn(list.reason)?.code === 'HOSTED_UNSUPPORTED') throw list.reason;
    }
    return undefined;
  }
}

function placeOf(): RunPlace {
  const { namespace, workflowId, runId, scheduledAt } = currentScheduler();
  return { namespace, workflowId, runId, startedAt: scheduledAt };
}

/** The lists of all servers, and when they were there. */
type Listed = Pick<BegunRun, 'found' | 'times'>;

function begun(prepared: PreparedRun, lists: Listed, { turns = [], failed }: FirstTurns): BegunRun {
  if (lists.found === undefined) return prepared;
  return { ...prepared, ...lists, ...defined({ turns: turns.length === 0 ? undefined : turns, failed }) };
}
