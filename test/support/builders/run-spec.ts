import { type Limits, RunSpec, type RunSpecInput } from '../../../contracts/schemas/run-spec.ts';

/** Makes the smallest spec that a caller may send. */
export function runSpecInput(over: Partial<RunSpecInput> = {}): RunSpecInput {
  return { agent: { name: 'clerk', model: 'scripted' }, input: 'Tidy the notes.', initiator: { id: 'ann' }, ...over };
}

/** Makes the same spec with every default applied. */
export function runSpec(over: Partial<RunSpecInput> = {}): RunSpec {
  return RunSpec.parse(runSpecInput(over));
}

/** Makes the default limits, some of them changed. */
export function limits(over: Partial<Limits> = {}): Limits {
  return { ...runSpec().limits, ...over };
}
