/** A private key on disk: written once, and never over another. */
import { open } from 'node:fs/promises';
import { CountersignError } from '../contracts/errors.ts';

/** Its owner alone may read it. */
const PRIVATE = 0o600;

/** @param shown names the file in errors. @throws CountersignError `USAGE` where there is one already */
export async function writeOnce(path: string, shown: string, text: string): Promise<void> {
  try {
    const file = await open(path, 'wx', PRIVATE);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    // Not by instanceof: errors of Node's core may come from another realm.
    const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'error';
    const reason =
      code === 'EEXIST'
        ? 'is there already, and a private key is never overwritten; name another'
        : `cannot be written (${code})`;
    throw new CountersignError('USAGE', `The file ${shown} ${reason}.`, {}, { cause: error });
  }
}
