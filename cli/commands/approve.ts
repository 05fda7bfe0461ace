/** `countersign approve`: lets one waiting call run. */
import type { Command } from 'commander';
import { addDecision, type Commented, withComment } from '../decision-command.ts';
import type { Terminal } from '../terminal.ts';

export function addApprove(program: Command, terminal: Terminal): void {
  addDecision<Commented>(program, terminal, {
    name: 'approve',
    summary: 'countersign one waiting call',
    description: 'Countersign one waiting call: it then runs, once',
    who: 'who decides',
    examples: [
      'approve nightly-42 t2.c0 --as ann',
      'approve nightly-42 t2.c0 --as ben --group ops --digest 3f8a… --comment "checked with Eve"',
    ],
    own: withComment,
    judged: ({ comment }) => ({ kind: 'approve', ...(comment === undefined ? {} : { comment }) }),
  });
}
