/** `countersign approve`: lets one waiting call run. */
import type { Command } from 'commander';
import { JsonObject } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { addDecision, type Commented, withComment } from '../decision-command.ts';
import { readInput } from '../input-file.ts';
import type { Terminal } from '../terminal.ts';

interface ApproveOptions extends Commented {
  readonly arguments?: string;
}

export function addApprove(program: Command, terminal: Terminal): void {
  addDecision<ApproveOptions>(program, terminal, {
    name: 'approve',
    summary: 'countersign one waiting call',
    description: 'Countersign one waiting call: it then runs, once',
    who: 'who decides',
    examples: [
      'approve nightly-42 t2.c0 --as ann',
      'approve nightly-42 t2.c0 --as ben --group ops --digest 3f8a… --comment "checked with Eve"',
      'approve nightly-42 t2.c0 --as ann --arguments changed.json',
    ],
    own: (command) =>
      withComment(command).option(
        '--arguments <file>',
        'send these arguments in place of those shown (JSON or YAML, - for standard input)',
      ),
    judged: async ({ comment, arguments: source }) => ({
      kind: 'approve',
      ...(comment === undefined ? {} : { comment }),
      ...(source === undefined ? {} : { arguments: await argumentsIn(source, terminal) }),
    }),
  });
}

async function argumentsIn(source: string, terminal: Terminal): Promise<JsonObject> {
  const what = 'arguments';
  return parseAs(
    JsonObject,
    await readInput(source, { what, code: 'DECISION_INVALID' }, terminal),
    'DECISION_INVALID',
    what,
  );
}
