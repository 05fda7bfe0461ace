/** `countersign reject`: refuses waiting calls. */
import type { Command } from 'commander';
import { addDecision } from '../decision-command.ts';
import type { Terminal } from '../terminal.ts';

export function addReject(program: Command, terminal: Terminal): void {
  addDecision<{ readonly reason: string }>(program, terminal, {
    name: 'reject',
    summary: 'refuse waiting calls',
    description: 'Refuse waiting calls: they do not run, and the model is told why',
    several: true,
    who: 'who decides',
    examples: [
      'reject nightly-42 t2.c0 --as ann --reason "wrong customer"',
      'reject nightly-42 --all --as ann --reason "not on a friday" --yes',
    ],
    own: (command) => command.requiredOption('--reason <text>', 'told to the model, and kept in the ledger'),
    judged: ({ reason }) => ({ kind: 'reject', reason }),
  });
}
