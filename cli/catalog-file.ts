/**
 * A catalog as a file: written for review, and read back in this shape or the older one.
 *
 * 1. The same catalog is the same text: tools in order, no times, nothing that a refresh alone changes.
 * 2. No character of a tool's name stands in it that a reviewer does not see.
 */
import { Document, Scalar, YAMLMap } from 'yaml';
import { CountersignError } from '../contracts/errors.ts';
import type { CatalogConnection, CatalogSnapshot } from '../contracts/schemas/catalog.ts';
import { CatalogFile, FiledTool, ToolList } from '../contracts/schemas/catalog-file.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { filedTool, type WantedTool, wantedTool } from '../domain/catalog-file.ts';
import { escapedInvisible } from './answer.ts';

export interface ReadCatalogFile {
  /** The older shape names none of these. */
  readonly tenant?: string;
  readonly server?: string;
  readonly version?: number;
  readonly connection?: CatalogConnection | undefined;
  readonly tools: ReadonlyMap<string, WantedTool>;
}

export function catalogFile({ tenant, server, policyVersion, connection, entries }: CatalogSnapshot): CatalogFile {
  const sorted = entries.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  return {
    tenant,
    server,
    version: policyVersion,
    ...(connection === undefined ? {} : { connection }),
    tools: Object.fromEntries(sorted.map((entry) => [entry.name, filedTool(entry)])),
  };
}

export function catalogYaml({ tools, ...head }: CatalogFile): string {
  const document = new Document(head);
  const map = new YAMLMap<Scalar<string>>();
  for (const [name, tool] of Object.entries(tools)) map.set(keyOf(name), document.createNode(tool));
  document.set('tools', map);
  document.commentBefore = ' Bring it back: countersign catalog import FILE --as ID';
  // What is left of such characters then stands in quotes, where YAML takes the escapes of JSON.
  return escapedInvisible(document.toString({ lineWidth: 0, doubleQuotedAsJSON: true }).trimEnd());
}

function keyOf(name: string): Scalar<string> {
  const key = new Scalar(name);
  if (!/^[A-Za-z_][\w./-]*$/.test(name)) key.type = Scalar.QUOTE_DOUBLE;
  return key;
}

/** @param shown names the file in messages. @throws CountersignError `CATALOG_INVALID` */
export function parseCatalogFile(value: unknown, shown: string): ReadCatalogFile {
  if (Array.isArray(value))
    return { tools: fromList(parseAs(ToolList, value, 'CATALOG_INVALID', `catalog file ${shown}`)) };
  const { tools, ...head } = parseAs(CatalogFile, value, 'CATALOG_INVALID', `catalog file ${shown}`);
  const wanted = new Map(Object.entries(tools).map(([name, tool]) => [name, wantedTool(tool)]));
  const odd = oddlyNamed(value);
  if (odd !== undefined)
    wanted.set(
      ODD_NAME,
      wantedTool(parseAs(FiledTool, odd, 'CATALOG_INVALID', `${ODD_NAME} of catalog file ${shown}`)),
    );
  return { ...head, tools: wanted };
}

/** A legal name of a tool that zod leaves out of what it parses. */
const ODD_NAME = '__proto__';

function oddlyNamed(value: unknown): unknown {
  // Sound: it was parsed as a catalog file, so that it has tools.
  const { tools } = value as { tools: object };
  return Object.getOwnPropertyDescriptor(tools, ODD_NAME)?.value;
}

function fromList(list: ToolList): ReadonlyMap<string, WantedTool> {
  const wanted = new Map<string, WantedTool>();
  for (const [index, { name, enabled, requires_approval: requiresApproval }] of list.entries()) {
    const path = `[${index}].name`;
    if (wanted.has(name))
      throw new CountersignError('CATALOG_INVALID', `${path} stands twice; say all of a tool in one place.`, { path });
    wanted.set(name, { enabled, requiresApproval });
  }
  return wanted;
}
