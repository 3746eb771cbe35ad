import { jsonSchemaTransform } from 'fastify-type-provider-zod'
import { z } from 'zod'

/**
 * Describes a route by its schemas. The defaults of a query are told as well where its texts are made to numbers: the
 * library leaves them out there, since it cannot know how they would be written.
 */
export const describeRoute: typeof jsonSchemaTransform = (route) => {
  const described = jsonSchemaTransform(route)
  const properties = propertiesOf(described.schema['querystring'])
  for (const [name, value] of defaultsOf(route.schema?.querystring)) {
    const property = properties[name]
    if (property !== undefined) property['default'] ??= value
  }
  return described
}

type Described = Record<string, Record<string, unknown>>

function propertiesOf(schema: unknown): Described {
  const hasProperties = typeof schema === 'object' && schema !== null && 'properties' in schema
  // What the library makes of an object is an object of objects.
  return hasProperties ? (schema.properties as Described) : {}
}

function defaultsOf(schema: unknown): readonly (readonly [string, unknown])[] {
  if (!(schema instanceof z.ZodObject)) return []
  return Object.entries(schema.shape).flatMap(([name, one]) =>
    one instanceof z.ZodDefault ? [[name, one.def.defaultValue] as const] : [],
  )
}
