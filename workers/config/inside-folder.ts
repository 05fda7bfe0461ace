/**
 * Says whether a folder is inside the configuration's own: such a folder may be made; anywhere else a volume
 * may be meant.
 */
import { resolve, sep } from 'node:path';

export function isBeside(baseDirectory: string, root: string): boolean {
  return root.startsWith(resolve(baseDirectory) + sep);
}
