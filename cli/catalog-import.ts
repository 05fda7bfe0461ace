/** Whether a file may be brought into a catalog at all, and into which. */
import { CountersignError } from '../contracts/errors.ts';
import type { ImportPlan } from '../domain/catalog-file.ts';
import { visible } from '../domain/escape.ts';
import type { ReadCatalogFile } from './catalog-file.ts';
import { names } from './views/words.ts';

interface Target {
  readonly tenant: string;
  readonly server: string;
}

/** @param options what the command line says must be what the file says. @throws CountersignError `USAGE` */
export function importTarget(file: Partial<Target>, options: Partial<Target>, shown: string): Target {
  for (const field of ['tenant', 'server'] as const) {
    const [ours, theirs] = [options[field], file[field]];
    if (ours !== undefined && theirs !== undefined && ours !== theirs)
      throw new CountersignError('USAGE', `${shown} is of ${field} ${theirs}, not of ${visible(ours)}.`, {
        path: field,
      });
  }
  const server = options.server ?? file.server;
  if (server === undefined)
    throw new CountersignError('USAGE', `${shown} is a plain list: say whose tools it names with --server.`);
  return { tenant: options.tenant ?? file.tenant ?? 'default', server };
}

/** @throws CountersignError `TOOL_UNKNOWN`; `DEFINITION_CHANGED` where it would be sent */
export function assertImportable(
  { unknown, refused }: ImportPlan,
  { shown, isPlan, tenant, server }: Target & { readonly shown: string; readonly isPlan: boolean },
): void {
  const [first, ...more] = unknown;
  if (first !== undefined) {
    const { tool, near } = first;
    const hint = near.length > 0 ? ` Did you mean ${names(near)}?` : ` See: countersign catalog list ${server}`;
    const others =
      more.length > 0
        ? `, nor ${names(
            more.map((each) => each.tool),
            5,
          )}`
        : '';
    const path = `tools[${JSON.stringify(visible(tool))}]`;
    throw new CountersignError(
      'TOOL_UNKNOWN',
      `${shown}, ${path}: ${server} has no such tool${others}.${hint} Nothing was sent.`,
      {
        path,
        server,
      },
    );
  }
  if (refused.length === 0 || isPlan) return;
  throw new CountersignError(
    'DEFINITION_CHANGED',
    `${shown} would loosen ${names(refused, 5)}, and was written for another definition than the server has now. Read the difference (countersign catalog diff ${server} --tenant ${tenant}), put the new hash into the file, and bring it again; nothing was sent.`,
    { server },
  );
}

/** What of the connection is not as the file has it; a file does not change it. */
export function connectionDifferences(has: object | undefined, file: ReadCatalogFile): readonly string[] {
  const { connection } = file;
  if (connection === undefined) return [];
  const there: Readonly<Record<string, unknown>> = { ...has };
  const wanted: Readonly<Record<string, unknown>> = { ...connection };
  return ['url', 'credentials', 'trusted', 'taskQueue'].filter((field) => there[field] !== wanted[field]);
}
