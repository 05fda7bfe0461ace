/**
 * The entry point of the `countersign` command. Node loads hundreds of files more slowly than most commands work, so
 * the build bundles the verbs that people run all day (docs/adr/0085). Their bundle is taken where there is one.
 */
import { existsSync } from 'node:fs';

/** Exit codes that shells report of a process that a signal has ended. */
const ENDED_BY = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

const leaveSignals = process.pid === 1 ? endBySignals() : undefined;

const args = process.argv.slice(2);
const [verb = ''] = args;
const bundled = new URL(`./bundled/${verb}.js`, import.meta.url);
const isBundled = /^[a-z]+$/.test(verb) && existsSync(bundled);
// Sound: the build makes it of these two files.
const { runCli, processTerminal } = (isBundled ? await import(bundled.href) : await fromFiles()) as Awaited<
  ReturnType<typeof fromFiles>
>;

const exitCode = await runCli(args, processTerminal(leaveSignals));
// The process is ended explicitly once all output is written, since a worker's native runtime would keep it alive.
process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)));

/**
 * A signal ends the first process of a container only if it listens to it; a gateway may take long to start.
 * @returns what leaves the signals to the command, which calls it when it listens itself
 */
function endBySignals(): () => void {
  const leaves = Object.entries(ENDED_BY).map(([signal, code]) => {
    const end = (): void => process.exit(code);
    process.on(signal, end);
    return () => process.off(signal, end);
  });
  return () => {
    for (const leave of leaves) leave();
  };
}

async function fromFiles() {
  return { ...(await import('./program.ts')), ...(await import('./session/terminal.ts')) };
}
