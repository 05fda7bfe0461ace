import type { ToolTarget } from '../../../contracts/schemas/call.ts';
import type { ServerTools, ToolDefinition } from '../../../contracts/schemas/tool.ts';
import { definitionHash } from '../../../domain/request/digest.ts';

export function toolDefinition(over: Partial<ToolDefinition> = {}): ToolDefinition {
  return {
    name: 'write_file',
    description: 'Writes a file.',
    inputSchema: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    ...over,
  };
}

export function serverTools(server: string, names: readonly string[]): ServerTools {
  return {
    server,
    serverUrl: `https://${server}.example/mcp`,
    tools: names.map((name) => {
      const definition = toolDefinition({ name });
      return { definition, hash: definitionHash(definition) };
    }),
  };
}

export function toolTarget(over: Partial<ToolTarget> = {}): ToolTarget {
  return {
    server: 'files',
    serverUrl: 'https://files.example/mcp',
    tool: 'write_file',
    definitionHash: definitionHash(toolDefinition()),
    ...over,
  };
}
