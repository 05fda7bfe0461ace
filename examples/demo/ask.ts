/** The one question of the demo. */
import { randomUUID } from 'node:crypto';
import { createInterface } from 'node:readline/promises';
import type { ApprovalRequest, DecisionInput } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { say } from './voice.ts';

/** @param by who decides. @throws CountersignError where nobody answers */
export async function decisionOn(
  request: ApprovalRequest,
  by: string,
  asks: boolean,
  signal: AbortSignal,
): Promise<DecisionInput> {
  const { callId, digest, runId } = request;
  const decision = { decisionId: randomUUID(), callId, digest, runId, approver: { id: by, groups: [] } };
  if (asks ? await isWanted(by, signal) : byItself(by)) return { kind: 'approve', ...decision };
  return { kind: 'reject', ...decision, reason: 'refused on the terminal' };
}

function byItself(by: string): true {
  say(`Countersign this call as ${by}? [y/n] y  (--yes)`);
  return true;
}

async function isWanted(by: string, signal: AbortSignal): Promise<boolean> {
  // Not as a terminal: Ctrl-C stays a signal of the process.
  const lines = createInterface({ input: process.stdin, output: process.stdout, terminal: false });
  try {
    const closed = new Promise<undefined>((resolve) => lines.once('close', () => resolve(undefined)));
    for (;;) {
      const answer = await Promise.race([lines.question(`Countersign this call as ${by}? [y/n] `, { signal }), closed]);
      if (answer === undefined) throw new CountersignError('USAGE', 'There was no answer; nothing was decided.');
      if (/^y(?:es)?$/i.test(answer.trim())) return true;
      if (/^no?$/i.test(answer.trim())) return false;
    }
  } finally {
    lines.close();
  }
}
