/** `countersign authorize`: answers a server that wants another authorization for a call. */
import type { Command } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';
import type { AuthorizationInput } from '../../contracts/schemas/authorization.ts';
import type { AuthorizationPause } from '../../contracts/schemas/pause.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { Grant } from '../../contracts/schemas/run-spec.ts';
import { visible } from '../../domain/escape.ts';
import { type Answer, print } from '../answer.ts';
import { examples } from '../examples.ts';
import { readInput } from '../input-file.ts';
import { repeated } from '../options.ts';
import { type AnswerBase, type Answered, type AnswerOptions, answerPause, withAnswerOptions } from '../pause-answer.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { pauseAnswer } from '../views/pause-answer.ts';

interface AuthorizeOptions extends AnswerOptions {
  readonly scope?: readonly string[];
  readonly again?: true;
  readonly ref?: string;
  readonly grantFile?: string;
  readonly decline?: string;
}

export function addAuthorize(program: Command, terminal: Terminal): void {
  const command = program
    .command('authorize')
    .summary('give what a server wants before it takes a call')
    .description(
      'Answer a call whose server wants another authorization: consent to the scopes that it names, for this call alone; or give a fresh grant in place of your own',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who says it: an approver of the request, or whose grant it replaces')
    .option('--scope <scope>', 'consent to this scope; all that the request names, each by name', repeated)
    .option('--again', 'where no scope is named: let it be tried once more')
    .option('--ref <ref>', 'the vault entry in place of the grant')
    .option('--grant-file <file>', 'a sealed grant as JSON, {server, jwe}, or - for standard input')
    .option('--decline <reason>', 'neither: the call ends');
  withAnswerOptions(command)
    .addHelpText(
      'after',
      examples(
        'authorize nightly-42 t2.c0 --as bob --scope tickets.admin',
        'authorize nightly-42 t2.c0 --as ann --ref ann-tickets',
        "authorize nightly-42 t2.c0 --as bob --decline 'not for this run'",
      ),
    )
    .action(async (runId: string, callId: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<AuthorizeOptions>();
      assertOne(options);
      const answered = await withSession(terminal, options, async ({ countersign }) => {
        const run = countersign.run(runId);
        return await answerPause(run, callId, options, {
          kind: 'authorization',
          asksNot: 'waits for no authorization',
          say: async (about, base) => await answerTo(about, base, options, terminal),
          send: async (said) => await run.authorize(said),
          // A grant is of the server that the request names, which is gone by then.
          told: (fact) => [
            [fact.answer, kindOf(options)],
            [fact.comment, options.decline ?? options.comment],
          ],
        });
      });
      print(terminal, authorizedText(runId, answered), options.json === true);
    });
}

function assertOne({ scope, again, ref, grantFile, decline, comment }: AuthorizeOptions): void {
  if ([scope, again, ref, grantFile, decline].filter((each) => each !== undefined).length !== 1)
    throw new CountersignError(
      'USAGE',
      'Say one thing: --scope (each that is named), --again, --ref, --grant-file or --decline.',
    );
  if (decline !== undefined && comment !== undefined)
    throw new CountersignError('USAGE', '--decline holds the reason; --comment goes with the others.');
}

function kindOf({ ref, grantFile, decline }: AuthorizeOptions): AuthorizationInput['kind'] {
  if (decline !== undefined) return 'decline';
  return ref === undefined && grantFile === undefined ? 'consent' : 'grant';
}

async function answerTo(
  { server, scopes = [] }: AuthorizationPause,
  base: AnswerBase,
  { scope = [], ref, grantFile, decline, comment }: AuthorizeOptions,
  terminal: Terminal,
): Promise<AuthorizationInput> {
  if (decline !== undefined) return { kind: 'decline', ...base, reason: decline };
  const noted = { ...base, ...(comment === undefined ? {} : { comment }) };
  if (ref !== undefined) return { kind: 'grant', ...noted, grant: { server, ref } };
  if (grantFile !== undefined) {
    const given = await readInput(grantFile, { what: 'grant', code: 'GRANT_INVALID' }, terminal);
    return { kind: 'grant', ...noted, grant: parseAs(Grant, given, 'GRANT_INVALID', 'grant') };
  }
  if (scopes.length === new Set(scope).size && scopes.every((each) => scope.includes(each)))
    return { kind: 'consent', ...noted };
  const wanted = scopes.map((each) => `--scope ${visible(each)}`).join(' ');
  throw new CountersignError(
    'DECISION_INVALID',
    `Call ${base.callId} waits for consent to ${wanted === '' ? 'another try (--again)' : wanted}; name exactly that.`,
    { callId: base.callId },
  );
}

function authorizedText(runId: string, answered: Answered): Answer {
  const { answer } = answered.ack;
  const declined = answer === 'decline';
  return pauseAnswer(runId, answered, {
    word: answer,
    colour: declined ? 'red' : 'green',
    ...(declined ? {} : { next: 'it is sent again' }),
  });
}
