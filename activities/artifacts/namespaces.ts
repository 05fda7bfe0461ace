/**
 * The namespaces whose workers keep artifacts in a directory, beside its marker.
 *
 * Whoever removes artifacts must have read their histories, and cannot know of them otherwise (`client/artifact-sweep.ts`). Written
 * before a worker stores anything, and never removed by one: runs outlast workers.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { STORE_NAMESPACES, type StoreNamespace } from '../../contracts/schemas/artifact-store.ts';

/** A second call changes nothing. @param root with its marker */
export async function recordNamespace(root: string, { name, id }: StoreNamespace): Promise<void> {
  const folder = join(root, STORE_NAMESPACES);
  const path = join(folder, `${id}.json`);
  const text = `${JSON.stringify({ name, id } satisfies StoreNamespace)}\n`;
  if ((await readFile(path, 'utf8').catch(() => undefined)) === text) return;
  // Not `recursive`: that would make the root too.
  await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
    if (typeof error !== 'object' || error === null || !('code' in error) || error.code !== 'EEXIST') throw error;
  });
  const temporary = join(folder, `.${randomUUID()}.tmp`);
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  // The names are durable only when the folders that hold them are.
  for (const directory of [folder, root]) {
    const handle = await open(directory, 'r');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
  }
}
