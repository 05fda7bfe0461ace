/** `countersign withdraw`: takes back an approval while others are still needed. */
import type { Command } from 'commander';
import { addDecision, type Commented, withComment } from '../decision-command.ts';
import type { Terminal } from '../terminal.ts';

export function addWithdraw(program: Command, terminal: Terminal): void {
  addDecision<Commented>(program, terminal, {
    name: 'withdraw',
    summary: 'take back your approval of a call that waits for others',
    description: 'Take back your approval, while the call waits for others to agree',
    who: 'who agreed',
    examples: ['withdraw nightly-42 t2.c0 --as ann', 'withdraw nightly-42 t2.c0 --as ann --comment "wrong amount"'],
    own: withComment,
    judged: ({ comment }) => ({ kind: 'withdraw', ...(comment === undefined ? {} : { comment }) }),
  });
}
