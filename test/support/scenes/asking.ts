import type { RunRow } from '../../../contracts/schemas/http-api.ts';
import type { Asker } from '../../../gateway/identity/person.ts';
import type { Known } from '../../../gateway/projection/projection.ts';
import { START } from '../builders/run.ts';

/** Makes a person who asks the gateway. */
export function asker(over: Partial<Asker> = {}): Asker {
  return {
    id: 'ann',
    groups: [],
    tenant: 'default',
    seesAll: false,
    may: new Set(),
    until: Number.MAX_SAFE_INTEGER,
    ...over,
  };
}

/** Makes a run as the projection holds it. */
export function known(row: Partial<RunRow> = {}, over: Partial<Omit<Known, 'row'>> = {}): Known {
  return {
    row: {
      runId: 'run-1',
      status: 'running',
      tenant: 'default',
      initiator: 'zoe',
      servers: [],
      startedAt: new Date(START).toISOString(),
      pending: 0,
      ...row,
    },
    memo: undefined,
    approvers: undefined,
    mark: '',
    version: 1,
    misses: 0,
    ...over,
  };
}
