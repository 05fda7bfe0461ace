/**
 * `npm run demo`: a run from start to end on this machine, with real parts.
 *
 *   npm run demo              asks you on the terminal
 *   npm run demo -- --yes     decides by itself
 *   npm run demo -- --keep    stays up afterwards, to look around in Temporal UI
 *
 * 1. Exit code 0 only if the file was written exactly once, after the decision.
 * 2. All that was started is ended, also on Ctrl-C and on errors.
 */
import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { Countersign, CountersignError, visible } from '../../client/index.ts';
import { prove } from './proof.ts';
import { tellRun, uiAddress } from './run.ts';
import { countersign, type Service, ServiceProcess } from './service.ts';
import { facts, heading, paint, say } from './voice.ts';

interface Options {
  readonly yes: boolean;
  readonly keep: boolean;
}

const INTERRUPTED = 130;

process.exitCode = await main();

async function main(): Promise<number> {
  const signal = interruption();
  try {
    const options = readOptions();
    const scratch = await realpath(await mkdtemp(join(tmpdir(), 'countersign-demo-')));
    const child = new ServiceProcess(scratch);
    try {
      say(
        `${paint('bold', 'Countersign demo')}\n\n${paint('dim', 'starting Temporal, an MCP server and a worker …')}\n`,
      );
      const exitCode = await demo(await child.ready(signal), options, signal);
      if (!options.keep) say(`\n${paint('dim', 'To look around in Temporal UI afterwards: npm run demo -- --keep')}`);
      return exitCode;
    } finally {
      await child.stop();
      await rm(scratch, { recursive: true, force: true });
      say(paint('dim', 'Everything that was started is ended.'));
    }
  } catch (error) {
    if (signal.aborted) return INTERRUPTED;
    const { code, message } = error instanceof CountersignError ? error : { code: 'INTERNAL', message: String(error) };
    process.stderr.write(`\n${paint('red', `error ${code}`)}: ${message.split('\n').map(visible).join('\n')}\n`);
    return error instanceof CountersignError ? error.traits.exitCode : 1;
  }
}

async function demo(service: Service, { yes, keep }: Options, signal: AbortSignal): Promise<number> {
  facts({
    model: service.model,
    'MCP server': `@modelcontextprotocol/server-filesystem on ${service.files.folder}`,
    Temporal: `${service.address}, UI ${service.uiUrl}`,
  });
  const connection = await Connection.connect({ address: service.address });
  try {
    const library = new Countersign({ client: new Client({ connection, namespace: service.namespace }) });
    const { run, decided } = await tellRun({ service, library, asks: !yes, signal });
    heading('4. The result');
    const { status, output, turns, calls } = await run.result({ deadlineMs: 10_000 });
    facts({
      status,
      answer: visible(typeof output === 'string' ? output : JSON.stringify(output)),
      turns: String(turns),
      calls: String(calls),
    });
    heading('5. The ledger');
    await countersign(service, 'ledger', run.runId);
    heading('6. Was the file written exactly once, after the decision?');
    const checks = await prove(service.files.folder, run.runId, decided, await run.ledger());
    for (const { holds, text } of checks)
      say(`  ${holds ? paint('green', 'yes') : paint('red', 'NO ')}  ${visible(text)}`);
    if (keep) await stay(await uiAddress(service, run), service, signal);
    return checks.every(({ holds }) => holds) ? 0 : 1;
  } finally {
    await connection.close();
  }
}

async function stay(address: string, service: Service, signal: AbortSignal): Promise<void> {
  say(`\nStill running, until Ctrl-C:\n`);
  facts({
    'Temporal UI': paint('cyan', address),
    files: service.files.folder,
    'command line': `export TEMPORAL_ADDRESS=${service.address}; countersign --help  (here: npx countersign)`,
  });
  if (!signal.aborted)
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

function readOptions(): Options {
  const { values } = parseOptions();
  const options = { yes: values.yes === true, keep: values.keep === true };
  if (options.yes || process.stdin.isTTY) return options;
  throw new CountersignError(
    'USAGE',
    'The demo asks on a terminal, and standard input is none. Let it decide by itself: npm run demo -- --yes',
  );
}

function parseOptions() {
  try {
    return parseArgs({ options: { yes: { type: 'boolean' }, keep: { type: 'boolean' } } });
  } catch (error) {
    throw new CountersignError(
      'USAGE',
      `${error instanceof Error ? error.message : String(error)}. Known: --yes, --keep.`,
      {},
      { cause: error },
    );
  }
}

/** A second signal ends this process at once; the service sees its input end and follows. */
function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(name, () => {
      if (controller.signal.aborted) process.exit(INTERRUPTED);
      say(`\n${paint('dim', 'stopping …')}`);
      controller.abort();
    });
  }
  return controller.signal;
}
