import org.apache.kafka.common.message.ApiMessageType.ListenerType;
import org.apache.kafka.common.protocol.ApiKeys;

/** Prints every API of Apache Kafka: its key, whether brokers pass it on, and the listeners that answer it. */
public class ApiTable {
    public static void main(String[] args) {
        for (ApiKeys api : ApiKeys.values()) {
            StringBuilder line = new StringBuilder().append(api.id).append(' ').append(api.forwardable);
            for (ListenerType listener : ListenerType.values()) {
                if (api.inScope(listener)) {
                    line.append(' ').append(listener.name().toLowerCase());
                }
            }
            System.out.println(line);
        }
    }
}
