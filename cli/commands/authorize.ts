/** `countersign authorize`: answers a server that wants another authorization for a call. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { ApprovalRequest, RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { AuthorizationInput } from '../../contracts/schemas/authorization.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { Grant } from '../../contracts/schemas/run-spec.ts';
import { visible } from '../../domain/escape.ts';
import { print } from '../answer.ts';
import { answeredBefore, sentUnder } from '../answered-before.ts';
import { examples } from '../examples.ts';
import { readInput } from '../input-file.ts';
import { type GlobalOptions, repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { shortInstant } from '../views/duration.ts';

interface AuthorizeOptions extends GlobalOptions {
  readonly as: string;
  readonly group?: readonly string[];
  readonly scope?: readonly string[];
  readonly again?: true;
  readonly ref?: string;
  readonly grantFile?: string;
  readonly decline?: string;
  readonly comment?: string;
  readonly digest?: string;
  readonly decisionId?: string;
}

export function addAuthorize(program: Command, terminal: Terminal): void {
  program
    .command('authorize')
    .summary('give what a server wants before it takes a call')
    .description(
      'Answer a call whose server wants another authorization: consent to the scopes that it names, for this call alone; or give a fresh grant in place of your own',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who says it: an approver of the request, or whose grant it replaces')
    .option('--group <name>', 'a group you belong to; may be given several times', repeated)
    .option('--scope <scope>', 'consent to this scope; all that the request names, each by name', repeated)
    .option('--again', 'where no scope is named: let it be tried once more')
    .option('--ref <ref>', 'the vault entry in place of the grant')
    .option('--grant-file <file>', 'a sealed grant as JSON, {server, jwe}, or - for standard input')
    .option('--decline <reason>', 'neither: the call ends')
    .option('--comment <text>', 'kept in the ledger')
    .option('--digest <sha256>', 'answer only the request with this digest')
    .option('--decision-id <id>', 'the id of an answer whose acknowledgement got lost: sent again, it counts once')
    .addHelpText(
      'after',
      examples(
        'authorize nightly-42 t2.c0 --as bob --scope tickets.admin',
        'authorize nightly-42 t2.c0 --as ann --ref ann-tickets',
        "authorize nightly-42 t2.c0 --as bob --decline 'not for this run'",
      ),
    )
    .action(async (runId: string, callId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<AuthorizeOptions>();
      assertOne(options);
      const ack = await withSession(terminal, options, async ({ countersign }) => {
        const run = countersign.run(runId);
        const before = options.decisionId === undefined ? [] : await answeredBefore(run, callId, 'authorization.given');
        const own = before.find(({ decisionId }) => decisionId === options.decisionId);
        if (own !== undefined) return own;
        const request = await wantedOf(run, callId, options.digest);
        const said = await answerOf(request, options, terminal);
        return await sentUnder(said, async () => await run.authorize(said));
      });
      print(
        terminal,
        {
          json: { runId, ...ack },
          text: (paint) =>
            `${paint(ack.answer === 'decline' ? 'red' : 'green', ack.answer)}  ${ack.callId} by ${visible(ack.decidedBy)} at ${shortInstant(ack.decidedAt)}`,
        },
        options.json === true,
      );
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

async function wantedOf(run: RunHandle, callId: string, digest: string | undefined): Promise<ApprovalRequest> {
  const request = (await run.requests()).find((each) => each.callId === callId && each.status === 'open');
  if (request?.about?.kind !== 'authorization')
    throw new CountersignError(
      request === undefined ? 'REQUEST_NOT_OPEN' : 'DECISION_NOT_PERMITTED',
      `Call ${callId} waits for no authorization. See: countersign requests ${run.runId}`,
      { callId },
    );
  if (digest !== undefined && digest !== request.digest)
    throw new CountersignError('DIGEST_MISMATCH', `Call ${callId} waits under another digest now; read it again.`, {
      callId,
    });
  return request;
}

async function answerOf(
  request: ApprovalRequest,
  options: AuthorizeOptions,
  terminal: Terminal,
): Promise<AuthorizationInput> {
  const { as: id, group = [], scope, ref, grantFile, decline, comment, decisionId = randomUUID() } = options;
  const { callId, digest, runId, about } = request;
  const base = { decisionId, callId, digest, runId, approver: { id, groups: [...group] } };
  if (decline !== undefined) return { kind: 'decline', ...base, reason: decline };
  const noted = comment === undefined ? base : { ...base, comment };
  const server = about?.kind === 'authorization' ? about.server : '';
  if (ref !== undefined) return { kind: 'grant', ...noted, grant: { server, ref } };
  if (grantFile !== undefined) {
    const given = await readInput(grantFile, { what: 'grant', code: 'GRANT_INVALID' }, terminal);
    return { kind: 'grant', ...noted, grant: parseAs(Grant, given, 'GRANT_INVALID', 'grant') };
  }
  const named = about?.kind === 'authorization' ? (about.scopes ?? []) : [];
  const wanted = scope ?? [];
  if (named.length !== new Set(wanted).size || !named.every((each) => wanted.includes(each)))
    throw new CountersignError(
      'DECISION_INVALID',
      `Call ${callId} waits for consent to ${named.length === 0 ? 'another try (--again)' : named.map((each) => `--scope ${visible(each)}`).join(' ')}; name exactly that.`,
      { callId },
    );
  return { kind: 'consent', ...noted };
}
