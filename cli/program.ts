/** The command line: its verbs, and what every one of them does the same way. */
import { Command } from 'commander';
import { addAnswer } from './commands/answer.ts';
import { addApprove } from './commands/approve.ts';
import { addArtifacts } from './commands/artifacts.ts';
import { addAuthorize } from './commands/authorize.ts';
import { addCatalog } from './commands/catalog.ts';
import { addDev } from './commands/dev.ts';
import { addExtend } from './commands/extend.ts';
import { addForget } from './commands/forget.ts';
import { addKeys } from './commands/keys.ts';
import { addLedger } from './commands/ledger.ts';
import { addPolicy } from './commands/policy.ts';
import { addRecover } from './commands/recover.ts';
import { addReject } from './commands/reject.ts';
import { addReplay } from './commands/replay.ts';
import { addRequests } from './commands/requests.ts';
import { addResolve } from './commands/resolve.ts';
import { addRespond } from './commands/respond.ts';
import { addResult } from './commands/result.ts';
import { addSay } from './commands/say.ts';
import { addSetup } from './commands/setup.ts';
import { addShow } from './commands/show.ts';
import { addStart } from './commands/start.ts';
import { addStop } from './commands/stop.ts';
import { addVault } from './commands/vault.ts';
import { addVerifyLedger } from './commands/verify-ledger.ts';
import { addWatch } from './commands/watch.ts';
import { addWithdraw } from './commands/withdraw.ts';
import { addWorker } from './commands/worker.ts';
import { reportFailure } from './failure.ts';
import { addGlobalOptions } from './options.ts';
import type { Terminal } from './terminal.ts';
import { packageVersion } from '../workers/version.ts';

/** In the order of a first day. */
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

/** @returns the exit code: 0, or that of the error table (2 usage, 3 refused, 4 not found, 5 conflict, 6 unavailable, 7 failed check) */
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
      // Help after a mistake is for people.
      writeErr: (text) => (asJson ? undefined : terminal.err(text)),
      // Errors are reported in one place, see failure.ts.
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
