import { once } from 'node:events';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';

setFlagsFromString('--expose-gc');
// Sound: V8 offers it to contexts that are made after the flag was set.
const collect = runInNewContext('gc') as () => void;

const MOST_ROUNDS = 10;

/** Returns how many bytes of heap are in use, once what nobody holds is gone: what ends lets go of more, round by round. */
export function heldBytes(): number {
  let held = Infinity;
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    collect();
    const { heapUsed } = process.memoryUsage();
    if (heapUsed > held - 100_000) return heapUsed;
    held = heapUsed;
  }
  return held;
}

const PARSE = `
  const { parentPort } = require('node:worker_threads');
  const collect = require('node:vm').runInNewContext('gc');
  const used = () => (collect(), collect(), process.memoryUsage().heapUsed);
  parentPort.once('message', (text) => {
    const before = used();
    const value = JSON.parse(text);
    parentPort.postMessage(used() - before);
    globalThis.kept = value;
  });
`;

/**
 * Returns how many bytes of heap the value of a JSON text takes. A thread of its own measures it: to collect the heap
 * of a process that has run many test files takes half a second each time.
 */
export async function parsedBytes(text: string): Promise<number> {
  const thread = new Worker(PARSE, { eval: true });
  thread.postMessage(text);
  // Sound: the thread posts one number.
  const [bytes] = (await once(thread, 'message')) as [number];
  await thread.terminate();
  return bytes;
}
