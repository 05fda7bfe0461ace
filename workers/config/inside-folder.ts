/** Whether a folder is the configuration's own: such a one may be made, anywhere else a volume may be meant. */
import { resolve, sep } from 'node:path';

export function isBeside(baseDirectory: string, root: string): boolean {
  return root.startsWith(resolve(baseDirectory) + sep);
}
