/** A catalog as a file that people review and bring back. */
import { z } from 'zod';
import { CatalogConnection, ToolSetting } from './catalog.ts';
import { Identifier, Name, Sha256Hex } from './json.ts';
import { ToolName } from './policy.ts';

/** All that operators say of a tool: what is absent is not set. */
export const FiledTool = z.strictObject({
  ...ToolSetting.shape,
  /** Hash of the definition that an operator has taken notice of. */
  definition: Sha256Hex.optional(),
});
export type FiledTool = z.infer<typeof FiledTool>;

export const CatalogFile = z.strictObject({
  tenant: Identifier,
  server: Name,
  /** Version of the catalog when the file was written; for readers. */
  version: z.int().min(0),
  /** For readers: a file changes tools only. Names credentials, holds none. */
  connection: CatalogConnection.optional(),
  tools: z.record(ToolName, FiledTool),
});
export type CatalogFile = z.infer<typeof CatalogFile>;

/** The older shape: a plain list, which says less of a tool and nothing of its server. */
export const ToolList = z.array(
  z.strictObject({
    name: ToolName,
    description: z.string().nullish(),
    enabled: z.boolean().default(true),
    requires_approval: z.boolean().default(false),
    /** As the server was found then; a refresh says what is so now. */
    status: z.enum(['available', 'missing']).default('available'),
  }),
);
export type ToolList = z.infer<typeof ToolList>;
