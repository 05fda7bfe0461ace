/**
 * Reads of what no result has linked to, as the run denies them (docs/adr/0042).
 *
 * The first one leaves a marker: where a build that denies none has gone on, it stays as it was judged (INV-D1), and the dispatch
 * refuses it.
 */
import { patched } from '@temporalio/workflow';
import type { Judgement, ProposedCall } from '../contracts/schemas/call.ts';
import { withoutUnlinked } from '../domain/resource-link.ts';
import type { LiveRun } from './live-run.ts';

export function linkedOnly(
  { run }: LiveRun,
  call: Pick<ProposedCall, 'arguments'> | undefined,
  judgement: Judgement,
): Judgement {
  const allowed = withoutUnlinked(run, call, judgement);
  return allowed === judgement || patched('links') ? allowed : judgement;
}
