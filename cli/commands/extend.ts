/** `countersign extend`: postpones the deadline of a waiting call, where policy permits it. */
import type { Command } from 'commander';
import { addDecision, type Commented, withComment } from '../decision-command.ts';
import { time } from '../options.ts';
import type { Terminal } from '../terminal.ts';

interface Until extends Commented {
  readonly until: string;
}

export function addExtend(program: Command, terminal: Terminal): void {
  addDecision<Until>(program, terminal, {
    name: 'extend',
    summary: 'postpone the deadline of a waiting call',
    description: 'Postpone the deadline of a waiting call, as far as its policy permits; this is no approval',
    who: 'who postpones it; somebody who may decide',
    examples: [
      'extend nightly-42 t2.c0 --as ann --until 2026-02-01T09:00Z',
      'extend nightly-42 t2.c0 --as ben --group ops --until 2026-02-01T10:00+01:00 --comment "Eve is back on Monday"',
    ],
    own: (command) =>
      withComment(command.requiredOption('--until <time>', 'the new deadline, ISO 8601 with Z or an offset', time)),
    judged: ({ until, comment }) => ({ kind: 'extend', until, ...(comment === undefined ? {} : { comment }) }),
  });
}
