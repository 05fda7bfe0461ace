import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
// Sound: V8 offers it to contexts that are made after the flag was set.
const collect = runInNewContext('gc') as () => void;

/** Returns how many bytes of heap are in use, once what nobody holds is gone. */
export function heldBytes(): number {
  collect();
  return process.memoryUsage().heapUsed;
}
