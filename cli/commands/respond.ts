/** `countersign respond`: answers one waiting call in its tool's place. */
import type { Command } from 'commander';
import { addDecision, type Commented, withComment } from '../decision-command.ts';
import type { Terminal } from '../terminal.ts';

export function addRespond(program: Command, terminal: Terminal): void {
  addDecision<Commented & { readonly answer: string }>(program, terminal, {
    name: 'respond',
    summary: 'answer one waiting call in place of its tool',
    description: 'Answer one waiting call yourself: its tool does not run, and the model is told that you answered',
    who: 'who answers',
    examples: ['respond nightly-42 t2.c0 --as ann --answer "Done by hand, ticket 4711."'],
    own: (command) => withComment(command.requiredOption('--answer <text>', 'told to the model as yours')),
    judged: ({ answer, comment }) => ({ kind: 'respond', answer, ...(comment === undefined ? {} : { comment }) }),
  });
}
