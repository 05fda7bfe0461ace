/**
 * The entry point of the `countersign` command. Node loads hundreds of files more slowly than most commands work, so the
 * build bundles the verbs that people run all day (docs/adr/0085). Their bundle is taken where there is one.
 */
import { existsSync } from 'node:fs';

const args = process.argv.slice(2);
const [verb = ''] = args;
const bundled = new URL(`./bundled/${verb}.js`, import.meta.url);
const isBundled = /^[a-z]+$/.test(verb) && existsSync(bundled);
// Sound: the build makes it of these two files.
const { runCli, processTerminal } = (isBundled ? await import(bundled.href) : await fromFiles()) as Awaited<
  ReturnType<typeof fromFiles>
>;

const exitCode = await runCli(args, processTerminal());
// The process is ended explicitly once all output is written, since a worker's native runtime would keep it alive.
process.stdout.write('', () => process.stderr.write('', () => process.exit(exitCode)));

async function fromFiles() {
  return { ...(await import('./program.ts')), ...(await import('./session/terminal.ts')) };
}
