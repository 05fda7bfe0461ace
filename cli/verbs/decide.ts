/**
 * Declares what all deciding verbs have in common: one person decides one call, or several calls in the same
 * way.
 */
import type { Command } from 'commander';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { JsonObject } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { print } from '../session/answered.ts';
import { readInput } from '../session/files.ts';
import { examples, repeated, time } from '../session/options.ts';
import { withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { batchAnswer, decisionAnswer, planAnswer } from '../views/decision.ts';
import {
  assertAllDecided,
  assertForSeveral,
  type BatchOptions,
  decideCall,
  type Judged,
  notConfirmed,
  planBatch,
  rememberOf,
} from './deciding.ts';

interface DecisionVerb<Options> {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  /** Description of `--as`. */
  readonly who: string;
  readonly examples: readonly string[];
  /** Adds the verb's own options. */
  readonly own: (command: Command) => Command;
  readonly judged: (options: Options) => Judged | Promise<Judged>;
  /** True if one command may decide several calls. */
  readonly several?: true;
}

function addDecision<Options>(program: Command, terminal: Terminal, verb: DecisionVerb<Options>): void {
  const command = program
    .command(verb.name)
    .summary(verb.summary)
    .description(verb.description)
    .argument('<run>', 'run id')
    .requiredOption('--as <id>', verb.who);
  if (verb.several === true)
    command
      .argument('[calls...]', 'call ids, such as t2.c0')
      .option('--all', 'every call that waits and that you may decide')
      .option('--yes', 'decide several calls; without it they are only shown')
      .option('--reveal', 'show arguments that policy keeps out of lists, too');
  else command.argument('<call>', 'call id, such as t2.c0');
  verb
    .own(command)
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'decide only the request with this digest')
    .option('--decision-id <id>', 'the id of a decision whose answer got lost: sent again, it counts once')
    .addHelpText('after', examples(...verb.examples))
    .action(async (runId: string, named: string | readonly string[], _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<BatchOptions & Options>();
      const judged = await verb.judged(options);
      const callIds = typeof named === 'string' ? [named] : named;
      const [callId] = callIds;
      const isOne = callIds.length === 1 && options.all !== true;
      if (!isOne) assertForSeveral(callIds, judged, options);
      const asJson = options.json === true;
      await withSession(terminal, options, async ({ countersign }) => {
        const run = countersign.run(runId);
        if (callId !== undefined && isOne)
          return print(terminal, decisionAnswer(runId, await decideCall(run, callId, judged, options)), asJson);
        const plan = await planBatch(run, callIds, judged, options);
        if (options.yes !== true) {
          print(terminal, planAnswer(runId, plan, options.reveal === true), asJson);
          throw notConfirmed(plan);
        }
        const answers = await run.decideAll(plan.decisions);
        print(terminal, batchAnswer(runId, plan, answers), asJson);
        assertAllDecided(answers);
      });
    });
}

/** Options of verbs whose comment goes to the ledger only. */
interface Commented {
  readonly comment?: string;
}

export function withComment(command: Command): Command {
  return command.option('--comment <text>', 'kept in the ledger');
}

// Implements the verbs that decide on waiting calls: `approve`, `reject`, `respond`, `extend` and `withdraw`.

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
        ...defined({ comment }),
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

// `countersign reject` refuses waiting calls.

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

// `countersign respond` answers one waiting call in its tool's place.

export function addRespond(program: Command, terminal: Terminal): void {
  addDecision<Commented & { readonly answer: string }>(program, terminal, {
    name: 'respond',
    summary: 'answer one waiting call in place of its tool',
    description: 'Answer one waiting call yourself: its tool does not run, and the model is told that you answered',
    who: 'who answers',
    examples: ['respond nightly-42 t2.c0 --as ann --answer "Done by hand, ticket 4711."'],
    own: (command) => withComment(command.requiredOption('--answer <text>', 'told to the model as yours')),
    judged: ({ answer, comment }) => ({ kind: 'respond', answer, ...defined({ comment }) }),
  });
}

// `countersign extend` postpones the deadline of a waiting call, if policy permits it.

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
    judged: ({ until, comment }) => ({ kind: 'extend', until, ...defined({ comment }) }),
  });
}

// `countersign withdraw` takes an approval back while others are still needed.

export function addWithdraw(program: Command, terminal: Terminal): void {
  addDecision<Commented>(program, terminal, {
    name: 'withdraw',
    summary: 'take back your approval of a call that waits for others',
    description: 'Take back your approval, while the call waits for others to agree',
    who: 'who agreed',
    examples: ['withdraw nightly-42 t2.c0 --as ann', 'withdraw nightly-42 t2.c0 --as ann --comment "wrong amount"'],
    own: withComment,
    judged: ({ comment }) => ({ kind: 'withdraw', ...defined({ comment }) }),
  });
}
