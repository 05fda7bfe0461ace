// Runs a command that may take minutes and says every few seconds that it lives: a silent install looks like a hang.
import { spawn } from 'node:child_process';

const REPORT_MS = 5_000;
const KEPT_LINES = 40;

/**
 * @param {string} command
 * @param {readonly string[]} args
 * @param {object} options
 * @param {string} options.cwd
 * @param {NodeJS.ProcessEnv} [options.env]
 * @param {(line: string) => void} [options.onLine] sees each line the command writes
 * @param {() => string} [options.progress] what to say besides the elapsed time
 * @returns {Promise<{ok: boolean, tail: string}>} `tail`: the last lines it wrote, for an error message
 */
export function runLong(command, args, { cwd, env = process.env, onLine, progress }) {
  return new Promise((resolve) => {
    const startedAt = Date.now();
    /** @type {string[]} */
    const tail = [];
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    const timer = setInterval(() => {
      const detail = progress?.();
      console.error(`  … ${Math.round((Date.now() - startedAt) / 1000)} s${detail ? `: ${detail}` : ''}`);
    }, REPORT_MS);
    for (const stream of [child.stdout, child.stderr]) {
      let rest = '';
      stream.setEncoding('utf8').on('data', (/** @type {string} */ chunk) => {
        const lines = (rest + chunk).split('\n');
        rest = lines.pop() ?? '';
        for (const line of lines) {
          onLine?.(line);
          tail.push(line);
          if (tail.length > KEPT_LINES) tail.shift();
        }
      });
    }
    /** @param {boolean} ok */
    const finish = (ok) => {
      clearInterval(timer);
      resolve({ ok, tail: tail.join('\n') });
    };
    child.on('error', (error) => {
      tail.push(error.message);
      finish(false);
    });
    child.on('close', (code) => finish(code === 0));
  });
}
