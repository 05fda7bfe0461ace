/** Trusted keys in a file, which is read again when it has changed: at once. */
import { readFile, stat } from 'node:fs/promises';
import type { TrustStore } from './port.ts';

/** @param path absolute. @param shown as the configuration names it */
export function createTrustFile(path: string, shown: string): TrustStore {
  let last: { readonly mark: string; readonly document: unknown } | undefined;
  return {
    name: shown,
    freshMs: 0,
    read: async (): Promise<unknown> => {
      const { ino, size, mtimeMs, ctimeMs } = await stat(path);
      const mark = `${ino} ${size} ${mtimeMs} ${ctimeMs}`;
      if (last?.mark !== mark) {
        const document: unknown = JSON.parse(await readFile(path, 'utf8'));
        last = { mark, document };
      }
      return last.document;
    },
  };
}
