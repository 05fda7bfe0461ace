/** Assembles the command line from its verbs, and does what all verbs do the same way: help, errors and exit codes. */
import { Command } from 'commander';
import { ANSWER, AUTHORIZE, RESOLVE } from './verbs/answer.ts';
import { ARTIFACTS, FORGET } from './verbs/artifacts.ts';
import { CATALOG } from './verbs/catalog.ts';
import { APPROVE, EXTEND, REJECT, RESPOND, WITHDRAW } from './verbs/decide.ts';
import { DEV } from './verbs/dev.ts';
import { GATEWAY } from './verbs/gateway.ts';
import { KEYS } from './verbs/keys.ts';
import { LEDGER } from './verbs/ledger.ts';
import { POLICY } from './verbs/policy.ts';
import { RECOVER } from './verbs/recover.ts';
import { REPLAY } from './verbs/replay.ts';
import { REQUESTS } from './verbs/requests.ts';
import { RESULT, SAY, SHOW, STOP, WATCH } from './verbs/run.ts';
import { START } from './verbs/start.ts';
import { VAULT } from './verbs/vault.ts';
import { VERIFY_LEDGER } from './verbs/verify-ledger.ts';
import { SETUP, WORKER } from './verbs/worker.ts';
import { GLOBAL_OPTIONS } from './session/options.ts';
import type { Terminal } from './session/terminal.ts';
import { reportFailure } from './session/verb.ts';
import { packageVersion } from '../workers/setup.ts';

/** Verbs in the order in which a new user meets them. */
const VERBS = [
  DEV,
  SETUP,
  WORKER,
  GATEWAY,
  CATALOG,
  POLICY,
  START,
  REQUESTS,
  SHOW,
  APPROVE,
  REJECT,
  RESPOND,
  RESOLVE,
  ANSWER,
  AUTHORIZE,
  WITHDRAW,
  FORGET,
  EXTEND,
  SAY,
  STOP,
  WATCH,
  RESULT,
  LEDGER,
  VERIFY_LEDGER,
  ARTIFACTS,
  VAULT,
  KEYS,
  REPLAY,
  RECOVER,
];

/**
 * Runs one command.
 * @returns the exit code: 0, or that of the error table (2 usage, 3 refused, 4 not found, 5 conflict, 6 unavailable, 7
 *   failed check)
 */
export async function runCli(args: readonly string[], terminal: Terminal): Promise<number> {
  const asJson = args.includes('--json');
  try {
    await createProgram(terminal, asJson).parseAsync([...args], { from: 'user' });
    return 0;
  } catch (error) {
    return reportFailure(terminal, error, asJson);
  }
}

export function createProgram(terminal: Terminal, asJson: boolean): Command {
  const program = new Command('countersign')
    .description('Durable agent runs whose tool calls wait for a countersignature.')
    .version(packageVersion(), '--version', 'the version of this package')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => terminal.out(text),
      // With --json, commander's help after a mistake is suppressed: it is for people.
      writeErr: (text) => (asJson ? undefined : terminal.err(text)),
      // Errors are reported in one place, see `session/verb.ts`.
      outputError: () => undefined,
      getOutHasColors: () => false,
    })
    .addHelpText(
      'after',
      '\nExit codes: 0 done, 2 usage, 3 refused, 4 not found, 5 conflict, 6 unavailable, 7 failed check, 70 fault.',
    );
  for (const [name, option] of Object.entries(GLOBAL_OPTIONS)) program.addOption(option(name));
  for (const add of VERBS) add(program, terminal);
  return program;
}
