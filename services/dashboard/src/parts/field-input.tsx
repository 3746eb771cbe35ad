import { useId } from 'preact/hooks'
import type { Field } from '../data/actions.ts'

/** One labelled input of a form that is read when it is sent. */
export function FieldInput({ field }: { readonly field: Field }) {
  const id = useId()
  const shared = {
    id,
    name: field.name,
    required: field.isOptional !== true,
    ...(field.help && { 'aria-describedby': `${id}-help` }),
  }
  return (
    <div class="field">
      <label for={id}>{field.label}</label>
      {field.kind === 'choice' ? (
        <select {...shared} defaultValue={field.value}>
          {field.options?.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      ) : field.kind === 'number' ? (
        <input {...shared} type="number" min={0} step="any" defaultValue={field.value} />
      ) : (
        <input {...shared} type="text" autocomplete="off" defaultValue={field.value} />
      )}
      {field.help && (
        <span id={`${id}-help`} class="hint">
          {field.help}
        </span>
      )}
    </div>
  )
}
