/**
 * Assembles the command line from its verbs, and does what all verbs do the same way: help, errors and exit
 * codes.
 */
import { Command } from 'commander';
import { addAnswer, addAuthorize, addResolve } from './verbs/answer.ts';
import { addApprove, addExtend, addReject, addRespond, addWithdraw } from './verbs/decide.ts';
import { addArtifacts, addForget } from './verbs/artifacts.ts';
import { addCatalog } from './verbs/catalog.ts';
import { addDev } from './verbs/dev.ts';
import { addKeys } from './verbs/keys.ts';
import { addLedger } from './verbs/ledger.ts';
import { addPolicy } from './verbs/policy.ts';
import { addRecover } from './verbs/recover.ts';
import { addReplay } from './verbs/replay.ts';
import { addRequests } from './verbs/requests.ts';
import { addResult, addSay, addShow, addStart, addStop, addWatch } from './verbs/run.ts';
import { addSetup, addWorker } from './verbs/worker.ts';
import { addVault } from './verbs/vault.ts';
import { addVerifyLedger } from './verbs/verify-ledger.ts';
import { reportFailure } from './session/answered.ts';
import { addGlobalOptions } from './session/options.ts';
import type { Terminal } from './session/terminal.ts';
import { packageVersion } from '../workers/setup.ts';

/** Verbs in the order in which a new user meets them. */
const VERBS = [
  addDev,
  addSetup,
  addWorker,
  addCatalog,
  addPolicy,
  addStart,
  addRequests,
  addShow,
  addApprove,
  addReject,
  addRespond,
  addResolve,
  addAnswer,
  addAuthorize,
  addWithdraw,
  addForget,
  addExtend,
  addSay,
  addStop,
  addWatch,
  addResult,
  addLedger,
  addVerifyLedger,
  addArtifacts,
  addVault,
  addKeys,
  addReplay,
  addRecover,
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
      // Errors are reported in one place, see `session/failure.ts`.
      outputError: () => undefined,
      getOutHasColors: () => false,
    })
    .addHelpText(
      'after',
      '\nExit codes: 0 done, 2 usage, 3 refused, 4 not found, 5 conflict, 6 unavailable, 7 failed check, 70 fault.',
    );
  addGlobalOptions(program);
  for (const addVerb of VERBS) addVerb(program, terminal);
  return program;
}
