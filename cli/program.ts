/** Assembles the command line from its verbs, and does what all verbs do the same way: help, errors and exit codes. */
import { Command } from 'commander';
import { GLOBAL_OPTIONS } from './session/options.ts';
import type { Terminal } from './session/terminal.ts';
import { reportFailure, type Verb } from './session/verb.ts';
import { packageVersion } from '../workers/setup.ts';

/** In the order in which a new user meets them. All of them together would take longer to load than most commands. */
const VERBS: ReadonlyMap<string, () => Promise<Verb>> = new Map(
  Object.entries({
    dev: async () => (await import('./verbs/dev.ts')).DEV,
    setup: async () => (await import('./verbs/worker.ts')).SETUP,
    worker: async () => (await import('./verbs/worker.ts')).WORKER,
    gateway: async () => (await import('./verbs/gateway.ts')).GATEWAY,
    'codec-server': async () => (await import('./verbs/gateway.ts')).CODEC_SERVER,
    catalog: async () => (await import('./verbs/catalog.ts')).CATALOG,
    policy: async () => (await import('./verbs/policy.ts')).POLICY,
    start: async () => (await import('./verbs/start.ts')).START,
    gate: async () => (await import('./verbs/gate.ts')).GATE,
    call: async () => (await import('./verbs/call.ts')).CALL,
    requests: async () => (await import('./verbs/requests.ts')).REQUESTS,
    show: async () => (await import('./verbs/run.ts')).SHOW,
    approve: async () => (await import('./verbs/decide.ts')).APPROVE,
    reject: async () => (await import('./verbs/decide.ts')).REJECT,
    respond: async () => (await import('./verbs/decide.ts')).RESPOND,
    resolve: async () => (await import('./verbs/answer.ts')).RESOLVE,
    answer: async () => (await import('./verbs/answer.ts')).ANSWER,
    authorize: async () => (await import('./verbs/answer.ts')).AUTHORIZE,
    withdraw: async () => (await import('./verbs/decide.ts')).WITHDRAW,
    forget: async () => (await import('./verbs/artifacts.ts')).FORGET,
    extend: async () => (await import('./verbs/decide.ts')).EXTEND,
    say: async () => (await import('./verbs/run.ts')).SAY,
    stop: async () => (await import('./verbs/run.ts')).STOP,
    watch: async () => (await import('./verbs/run.ts')).WATCH,
    result: async () => (await import('./verbs/run.ts')).RESULT,
    ledger: async () => (await import('./verbs/ledger.ts')).LEDGER,
    'verify-ledger': async () => (await import('./verbs/verify-ledger.ts')).VERIFY_LEDGER,
    artifacts: async () => (await import('./verbs/artifacts.ts')).ARTIFACTS,
    vault: async () => (await import('./verbs/vault.ts')).VAULT,
    keys: async () => (await import('./verbs/keys.ts')).KEYS,
    replay: async () => (await import('./verbs/replay.ts')).REPLAY,
    deploy: async () => (await import('./verbs/deploy.ts')).DEPLOY,
    recover: async () => (await import('./verbs/recover.ts')).RECOVER,
  }),
);

/** @returns the exit code: 0, or that of the error table */
export async function runCli(args: readonly string[], terminal: Terminal): Promise<number> {
  const asJson = args.includes('--json');
  try {
    await (await createProgram(terminal, asJson, args[0])).parseAsync([...args], { from: 'user' });
    return 0;
  } catch (error) {
    return reportFailure(terminal, error, asJson);
  }
}

/** @param asked the verb, if it comes first; with anything else every verb is there, to be listed or suggested */
export async function createProgram(terminal: Terminal, asJson: boolean, asked = ''): Promise<Command> {
  const program = new Command('countersign')
    .description('Durable agent runs whose tool calls wait for a countersignature.')
    .version(packageVersion(), '--version', 'the version of this package')
    .exitOverride()
    .configureHelp({ showGlobalOptions: true })
    .configureOutput({
      writeOut: (text) => terminal.out(text),
      // With --json, commander's help after a mistake is suppressed: it is for people.
      writeErr: (text) => (asJson ? undefined : terminal.err(text)),
      outputError: () => undefined,
      getOutHasColors: () => false,
    })
    .addHelpText(
      'after',
      '\nExit codes: 0 done, 2 usage, 3 refused, 4 not found, 5 conflict, 6 unavailable, 7 failed check, 70 fault.',
    );
  for (const [name, option] of Object.entries(GLOBAL_OPTIONS)) program.addOption(option(name));
  const one = VERBS.get(asked);
  for (const load of one === undefined ? VERBS.values() : [one]) (await load())(program, terminal);
  return program;
}
