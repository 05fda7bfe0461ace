import type { InputRequest } from '../../../contracts/schemas/input.ts';
import type { InputPause, Provision } from '../../../contracts/schemas/request.ts';
import type { DispatchResult } from '../../../contracts/wire/tools.ts';
import type { Paused, Pausing } from '../../../domain/request/pause.ts';
import { askedForInput, provide } from '../../../domain/request/provision.ts';
import { callOf, isAsking, type Run } from '../../../domain/state/run.ts';
import { shown } from './decision.ts';
import { flyingRun, pausing } from './pause.ts';
import { runIds, START } from './run.ts';

export const NAME: InputRequest = {
  kind: 'form',
  message: 'For whom?',
  fields: { name: { type: 'text', minLength: 2 } },
  required: ['name'],
  hash: '1'.repeat(64),
};
export const PAGE: InputRequest = {
  kind: 'url',
  message: 'Sign in.',
  url: 'https://id.example/',
  host: 'id.example',
  hash: '2'.repeat(64),
};
export const ANN = { action: 'accept', content: { name: 'Ann' } } as const;

type Asked = Extract<DispatchResult, { kind: 'input' }>;

/** Makes the result of a dispatch whose server asks. */
export function serverAsks(over: Partial<Asked> = {}): Asked {
  return { kind: 'input', round: 1, requests: { who: NAME }, used: [], ...over };
}

/** Makes a run whose server asks. */
export function askedRun(over: Partial<Asked> = {}, run = flyingRun(), more: Partial<Pausing> = {}): Run {
  const { unsure: _, ...given } = pausing(more);
  return askedForInput(run, 't1.c0', serverAsks(over), given, runIds()).run;
}

export function askedOf(run: Run): Paused<InputPause> {
  const state = callOf(run, 't1.c0');
  if (!isAsking(state)) throw new Error('nothing is asked');
  // Sound: `askedRun` made the run, so its request is about input.
  return state as Paused<InputPause>;
}

/** Answers the request that waits in this run. */
export function provisionIn(run: Run, over: Partial<Provision> = {}): Provision {
  const { digest, runId } = shown(run, 't1.c0');
  const said = { kind: 'provide', decisionId: 'p-1', callId: 't1.c0', approver: { id: 'ann', groups: [] } };
  // Sound: the fields in `over` fit the kind.
  return { ...said, digest, runId, responses: { who: ANN }, ...over } as Provision;
}

export function providedRun(run: Run, over: Partial<Provision> = {}): Run {
  return provide(run, askedOf(run), provisionIn(run, over), START).run;
}
