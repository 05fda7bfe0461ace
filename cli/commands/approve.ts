/** `countersign approve`: lets waiting calls run. */
import type { Command } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';
import { JsonObject } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { addDecision, type Commented, withComment } from '../decision-command.ts';
import { readInput } from '../input-file.ts';
import { time } from '../options.ts';
import { rememberOf } from '../remember.ts';
import type { Terminal } from '../terminal.ts';

interface ApproveOptions extends Commented {
  readonly arguments?: string;
  readonly remember?: string;
  readonly rememberUntil?: string;
}

export function addApprove(program: Command, terminal: Terminal): void {
  addDecision<ApproveOptions>(program, terminal, {
    name: 'approve',
    summary: 'countersign waiting calls',
    description: 'Countersign waiting calls: each then runs, once',
    several: true,
    who: 'who decides',
    examples: [
      'approve nightly-42 t2.c0 --as ann',
      'approve nightly-42 t2.c0 --as ben --group ops --digest 3f8a… --comment "checked with Eve"',
      'approve nightly-42 t2.c0 t2.c1 --as ann --yes',
      'approve nightly-42 --all --as ann',
      'approve nightly-42 t2.c0 --as ann --arguments changed.json',
      'approve nightly-42 t2.c0 --as ann --remember arguments:project,branch --remember-until 2026-02-01T09:00Z',
    ],
    own: (command) =>
      withComment(command)
        .option(
          '--arguments <file>',
          'send these arguments in place of those shown (JSON or YAML, - for standard input)',
        )
        .option('--remember <scope>', 'let later calls of this run pass, too: call, tool, or arguments:NAME,NAME')
        .option('--remember-until <time>', 'until then, ISO 8601 with Z or an offset', time),
    judged: async ({ comment, arguments: source, remember, rememberUntil }) => {
      if (remember === undefined && rememberUntil !== undefined)
        throw new CountersignError(
          'USAGE',
          '--remember-until is the end of --remember. Name its scope too; nothing was sent.',
        );
      return {
        kind: 'approve',
        ...(comment === undefined ? {} : { comment }),
        ...(source === undefined ? {} : { arguments: await argumentsIn(source, terminal) }),
        ...(remember === undefined ? {} : { remember: rememberOf(remember, rememberUntil) }),
      };
    },
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
